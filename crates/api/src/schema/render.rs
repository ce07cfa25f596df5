//! A schema in OpenAPI form. Keys come out sorted, as generators of CRDs write them.

use serde_json::{Map, Value, json};

use super::{ListMerge, QUANTITY_PATTERN, Rule, Schema, Shape, Width};

pub(super) fn render(schema: &Schema) -> Value {
    let mut out = Map::new();
    if !schema.description.is_empty() {
        out.insert("description".into(), schema.description.into());
    }
    if let Some(default) = &schema.default {
        out.insert("default".into(), default.clone());
    }
    render_shape(&mut out, &schema.shape);
    for (keyword, value) in &schema.inert {
        out.insert((*keyword).into(), value.clone());
    }
    if !schema.rules.is_empty() {
        out.insert("x-kubernetes-validations".into(), schema.rules.iter().map(render_rule).collect());
    }
    out.sort_keys();
    Value::Object(out)
}

fn render_rule(rule: &Rule) -> Value {
    json!({"message": rule.message, "rule": rule.cel})
}

fn render_shape(out: &mut Map<String, Value>, shape: &Shape) {
    let mut put = |keyword: &str, value: Value| {
        out.insert(keyword.into(), value);
    };
    match shape {
        Shape::Object { properties, required } => {
            put("type", "object".into());
            let mut rendered: Map<_, _> = properties.iter().map(|(name, s)| ((*name).to_owned(), render(s))).collect();
            rendered.sort_keys();
            put("properties", rendered.into());
            if !required.is_empty() {
                let mut required = required.clone();
                required.sort_unstable();
                put("required", required.into());
            }
        }
        Shape::Map { values, max, merge } => {
            put("type", "object".into());
            put("additionalProperties", render(values));
            if let Some(max) = max {
                put("maxProperties", (*max).into());
            }
            if let Some(merge) = merge {
                put("x-kubernetes-map-type", (*merge).into());
            }
        }
        Shape::Open => {
            put("type", "object".into());
            put("additionalProperties", json!({"x-kubernetes-preserve-unknown-fields": true}));
            put("x-kubernetes-preserve-unknown-fields", true.into());
        }
        Shape::List { items, min, max, merge } => {
            put("type", "array".into());
            put("items", render(items));
            if let Some(min) = min {
                put("minItems", (*min).into());
            }
            if let Some(max) = max {
                put("maxItems", (*max).into());
            }
            match merge {
                Some(ListMerge::Atomic) => put("x-kubernetes-list-type", "atomic".into()),
                Some(ListMerge::Set) => put("x-kubernetes-list-type", "set".into()),
                Some(ListMerge::Map(keys)) => {
                    put("x-kubernetes-list-type", "map".into());
                    put("x-kubernetes-list-map-keys", keys.to_vec().into());
                }
                None => {}
            }
        }
        Shape::Text { pattern, min, max, one_of, date_time } => {
            put("type", "string".into());
            if let Some(pattern) = pattern {
                put("pattern", pattern.text.into());
            }
            if let Some(min) = min {
                put("minLength", (*min).into());
            }
            if let Some(max) = max {
                put("maxLength", (*max).into());
            }
            if !one_of.is_empty() {
                put("enum", one_of.to_vec().into());
            }
            if *date_time {
                put("format", "date-time".into());
            }
        }
        Shape::Integer { width, min, max } => {
            put("type", "integer".into());
            match width {
                Some(Width::Int32) => put("format", "int32".into()),
                Some(Width::Int64) => put("format", "int64".into()),
                None => {}
            }
            if let Some(min) = min {
                put("minimum", (*min).into());
            }
            if let Some(max) = max {
                put("maximum", (*max).into());
            }
        }
        Shape::Boolean => put("type", "boolean".into()),
        Shape::Quantity => {
            put("anyOf", json!([{"type": "integer"}, {"type": "string"}]));
            put("pattern", QUANTITY_PATTERN.text.into());
            put("x-kubernetes-int-or-string", true.into());
        }
        Shape::Metadata => put("type", "object".into()),
    }
}
