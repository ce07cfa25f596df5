//! The document, read strictly: a key nobody knows is more likely a typing error than a wish.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// One entry of `node_pools`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Pool {
    pub(super) extra_security_groups: Vec<String>,
    pub(super) gpu_enabled: Option<bool>,
    pub(super) public: Option<bool>,
    pub(super) tags: Option<Map<String, Value>>,
    pub(super) volume_size: Option<String>,
    pub(super) annotations: Option<Map<String, Value>>,
    pub(super) labels: Option<Map<String, Value>>,
    pub(super) limits: Option<Map<String, Value>>,
    pub(super) requirements: Vec<Value>,
    pub(super) taints: Option<Value>,
}

/// The pools by name, or everything that is wrong, each line naming its path.
pub(super) fn read(text: &str) -> Result<BTreeMap<String, Pool>, Vec<String>> {
    let document: Value =
        serde_saphyr::from_str(text).map_err(|error| vec![error.without_snippet().to_string().replace('\n', " ")])?;
    let below_spec = document.pointer("/spec/karpenter").map(|section| (section, "spec.karpenter"));
    let section = document.get("karpenter").map(|section| (section, "karpenter")).or(below_spec);
    let Some((section, path)) = section else { return Err(vec!["karpenter: missing, also below spec".to_owned()]) };
    let mut reader = Reader::default();
    let mut pools = BTreeMap::new();
    for (key, value) in reader.object(section, path) {
        if key != "node_pools" {
            reader.unknown(path, &key);
            continue;
        }
        let path = format!("{path}.node_pools");
        for (name, value) in reader.object(&value, &path) {
            let pool = reader.pool(&value, &format!("{path}.{name}"));
            pools.insert(name, pool);
        }
    }
    if reader.faults.is_empty() { Ok(pools) } else { Err(reader.faults) }
}

#[derive(Default)]
struct Reader {
    faults: Vec<String>,
}

impl Reader {
    fn unknown(&mut self, path: &str, key: &str) {
        self.faults.push(format!("{path}.{key}: unknown key"));
    }

    fn wrong(&mut self, path: &str, wanted: &str) {
        self.faults.push(format!("{path}: expected {wanted}"));
    }

    /// Nothing where there is nothing.
    fn object(&mut self, value: &Value, path: &str) -> Map<String, Value> {
        match value {
            Value::Object(map) => map.clone(),
            Value::Null => Map::new(),
            _ => {
                self.wrong(path, "a dictionary");
                Map::new()
            }
        }
    }

    fn boolean(&mut self, value: &Value, path: &str) -> Option<bool> {
        if value.as_bool().is_none() && !value.is_null() {
            self.wrong(path, "true or false");
        }
        value.as_bool()
    }

    /// Values of labels, annotations and tags are texts; YAML makes numbers of some.
    fn texts(&mut self, value: &Value, path: &str) -> Option<Map<String, Value>> {
        let map = self.object(value, path);
        let text = |value: Value| match value {
            Value::Number(number) => number.to_string().into(),
            Value::Bool(yes) => yes.to_string().into(),
            other => other,
        };
        let map: Map<String, Value> = map.into_iter().map(|(key, value)| (key, text(value))).collect();
        for (key, _) in map.iter().filter(|(_, value)| !value.is_string()) {
            self.wrong(&format!("{path}.{key}"), "a text");
        }
        (!map.is_empty()).then_some(map)
    }

    fn pool(&mut self, value: &Value, path: &str) -> Pool {
        let mut pool = Pool::default();
        for (key, value) in self.object(value, path) {
            let here = format!("{path}.{key}");
            match key.as_str() {
                "node_class" => self.node_class(&value, &here, &mut pool),
                "annotations" => pool.annotations = self.texts(&value, &here),
                "labels" => pool.labels = self.texts(&value, &here),
                "limits" => pool.limits = Some(self.object(&value, &here)).filter(|limits| !limits.is_empty()),
                "requirements" => pool.requirements = self.requirements(&value, &here),
                "taints" => {
                    if !value.is_array() && !value.is_null() {
                        self.wrong(&here, "a list");
                    }
                    pool.taints = Some(value).filter(|taints| taints.as_array().is_some_and(|list| !list.is_empty()));
                }
                _ => self.unknown(path, &key),
            }
        }
        pool
    }

    fn node_class(&mut self, value: &Value, path: &str, pool: &mut Pool) {
        for (key, value) in self.object(value, path) {
            let here = format!("{path}.{key}");
            match key.as_str() {
                "extra_securitygroup_ids" => {
                    let ids = value.as_array().map(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
                    match ids {
                        Some(Some(ids)) => pool.extra_security_groups = ids.into_iter().map(str::to_owned).collect(),
                        None if value.is_null() => {}
                        _ => self.wrong(&here, "a list of ids"),
                    }
                }
                "gpu_enabled" => pool.gpu_enabled = self.boolean(&value, &here),
                "public" => pool.public = self.boolean(&value, &here),
                "tags" => pool.tags = self.texts(&value, &here),
                "volumeSize" => match value {
                    Value::String(size) => pool.volume_size = Some(size),
                    _ => self.wrong(&here, "a size such as \"100Gi\""),
                },
                _ => self.unknown(path, &key),
            }
        }
    }

    /// A list as it is; of a dictionary the values in the order of its keys, which are only names.
    fn requirements(&mut self, value: &Value, path: &str) -> Vec<Value> {
        let entries: Vec<(String, Value)> = match value {
            Value::Array(list) => list.iter().enumerate().map(|(at, v)| (format!("{path}[{at}]"), v.clone())).collect(),
            Value::Object(map) => {
                let sorted: BTreeMap<&String, &Value> = map.iter().collect();
                sorted.into_iter().map(|(name, v)| (format!("{path}.{name}"), v.clone())).collect()
            }
            Value::Null => Vec::new(),
            _ => {
                self.wrong(path, "a list or a dictionary");
                Vec::new()
            }
        };
        for (path, entry) in &entries {
            for (key, _) in self.object(entry, path) {
                if !["key", "operator", "values", "minValues"].contains(&key.as_str()) {
                    self.unknown(path, &key);
                }
            }
        }
        entries.into_iter().map(|(_, entry)| entry).collect()
    }
}
