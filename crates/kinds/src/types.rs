//! The built-in API types as a table: every struct, its JSON fields in declaration order and how each is encoded.
//!
//! The table is data (`data/types.txt`, printed by `data/extract` from the published types), because several readers
//! need it: decoding with Go's rules, protobuf, and OpenAPI.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

/// An index into [`Types::structs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StructId(pub u32);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ty {
    /// The Go name of a named string type, such as `v1.RestartPolicy`, or `string`.
    String(&'static str),
    Bool,
    Int32,
    Int64,
    Float,
    Quantity,
    Time,
    MicroTime,
    Duration,
    IntOrString,
    Bytes,
    /// Any JSON value, kept as it is.
    Raw,
    Struct(StructId),
    List(Box<Ty>),
    Map(Box<Ty>),
    Pointer(Box<Ty>),
}

impl Ty {
    /// Whether Go has a struct for it, which `omitempty` never takes for empty.
    pub fn is_go_struct(&self) -> bool {
        matches!(self, Ty::Struct(_) | Ty::Time | Ty::MicroTime | Ty::Quantity | Ty::IntOrString | Ty::Duration)
    }
}

#[derive(Clone, Debug)]
pub struct Field {
    pub name: &'static str,
    pub ty: Ty,
    /// Go's `omitempty`: zero scalars, empty lists and maps and absent pointers are not written.
    pub omit_empty: bool,
    /// Go's `omitzero`: the same for structs and times.
    pub omit_zero: bool,
    /// Whether something is written even where the field is absent.
    pub always: bool,
    /// The protobuf field number, after those of the embedded messages on the way to it; empty where there is none.
    pub number_path: Vec<u32>,
    /// Whether OpenAPI lists the field as required.
    pub required: bool,
    pub patch_strategy: Option<&'static str>,
    pub patch_merge_key: Option<&'static str>,
    pub list_type: Option<&'static str>,
    pub list_map_keys: Vec<&'static str>,
    pub map_type: Option<&'static str>,
    pub format: Option<&'static str>,
    /// What OpenAPI gives as the default, in JSON; a dash where it gives none although the type would have one.
    pub default: Option<&'static str>,
    /// The values OpenAPI lists, where it does.
    pub values: &'static [&'static str],
}

#[derive(Clone, Debug)]
pub struct Struct {
    /// As in OpenAPI: `io.k8s.api.core.v1.Pod`.
    pub name: &'static str,
    pub map_type: Option<&'static str>,
    pub fields: Vec<Field>,
}

impl Struct {
    /// The Go type's own name, as error messages have it.
    pub fn go_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    pub fn field(&self, name: &str) -> Option<usize> {
        self.field_from(0, name)
    }

    /// The same, looked for from `start` on first: fields mostly come in the order of their struct.
    pub fn field_from(&self, start: usize, name: &str) -> Option<usize> {
        let start = start.min(self.fields.len());
        let (before, after) = self.fields.split_at(start);
        let found = after.iter().position(|field| field.name == name).map(|index| start + index);
        found.or_else(|| before.iter().position(|field| field.name == name))
    }
}

#[derive(Debug, Default)]
pub struct Types {
    structs: Vec<Struct>,
    by_name: FxHashMap<&'static str, StructId>,
    by_kind: FxHashMap<(&'static str, &'static str), StructId>,
    kinds: Vec<(&'static str, &'static str, StructId)>,
}

impl Types {
    /// The table of Kubernetes 1.36, parsed on first use.
    pub fn get() -> &'static Types {
        static TYPES: OnceLock<Types> = OnceLock::new();
        TYPES.get_or_init(|| parse(include_str!("../data/types.txt")))
    }

    /// The type of a kind by `apiVersion` (`v1`, `apps/v1`) and kind.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<StructId> {
        self.by_kind.get(&(api_version, kind)).copied()
    }

    pub fn named(&self, name: &str) -> Option<StructId> {
        self.by_name.get(name).copied()
    }

    pub fn at(&self, id: StructId) -> &Struct {
        &self.structs[id.0 as usize]
    }

    /// Every kind as (apiVersion, kind, type).
    pub fn kinds(&self) -> &[(&'static str, &'static str, StructId)] {
        &self.kinds
    }
}

/// The file's grammar: `kind GROUP/VERSION KIND TYPE` lines, then a line per type followed by one indented line per field.
fn parse(text: &'static str) -> Types {
    let mut types = Types::default();
    let names = text.lines().filter(|line| !line.starts_with(' ') && !line.starts_with("kind "));
    for (index, line) in names.enumerate() {
        let name = line.split(' ').next().unwrap_or(line);
        types.by_name.insert(name, StructId(u32::try_from(index).expect("a few thousand types")));
    }
    for line in text.lines() {
        let mut words = line.trim_start().split(' ');
        let first = words.next().unwrap_or_default();
        if line.starts_with("kind ") {
            let (Some(group_version), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let api_version = group_version.strip_prefix('/').unwrap_or(group_version);
            let id = types.by_name[name];
            types.by_kind.insert((api_version, kind), id);
            types.kinds.push((api_version, kind, id));
        } else if line.starts_with(' ') {
            let ty = ty(words.next().unwrap_or_default(), &types.by_name);
            let field = field(first, ty, words);
            types.structs.last_mut().expect("a type precedes its fields").fields.push(field);
        } else {
            let map_type = words.find_map(|word| word.strip_prefix("map="));
            types.structs.push(Struct { name: first, map_type, fields: Vec::new() });
        }
    }
    for line in include_str!("../data/enums.txt").lines() {
        let Some((place, values)) = line.split_once('\t') else { continue };
        let Some((name, field)) = place.split_once(' ') else { continue };
        let Some(id) = types.by_name.get(name) else { continue };
        let structure = &mut types.structs[id.0 as usize];
        if let Some(field) = structure.field(field) {
            structure.fields[field].values = Vec::leak(values.split('|').collect());
        }
    }
    for line in include_str!("../data/defaults.txt").lines() {
        let Some((place, default)) = line.split_once('\t') else { continue };
        let Some((name, field)) = place.split_once(' ') else { continue };
        let Some(id) = types.by_name.get(name) else { continue };
        let structure = &mut types.structs[id.0 as usize];
        if let Some(field) = structure.field(field) {
            structure.fields[field].default = Some(default);
        }
    }
    for index in 0..types.structs.len() {
        for field in 0..types.structs[index].fields.len() {
            types.structs[index].fields[field].always = always(&types.structs, &types.structs[index].fields[field]);
        }
    }
    types
}

/// Structs by value cannot contain themselves, so this ends.
fn always(structs: &[Struct], field: &Field) -> bool {
    match &field.ty {
        Ty::Struct(id) => !field.omit_zero || structs[id.0 as usize].fields.iter().any(|field| always(structs, field)),
        ty if ty.is_go_struct() => !field.omit_zero,
        _ => !field.omit_empty && !field.omit_zero,
    }
}

fn field(name: &'static str, ty: Ty, words: std::str::Split<'static, char>) -> Field {
    let mut field = Field {
        name,
        ty,
        omit_empty: false,
        omit_zero: false,
        always: false,
        number_path: Vec::new(),
        required: false,
        patch_strategy: None,
        patch_merge_key: None,
        list_type: None,
        list_map_keys: Vec::new(),
        map_type: None,
        format: None,
        default: None,
        values: &[],
    };
    for word in words {
        match word.split_once('=') {
            None => match word {
                "o" => field.omit_empty = true,
                "z" => field.omit_zero = true,
                "r" => field.required = true,
                _ => {
                    let path = word.strip_prefix('n').unwrap_or_default();
                    field.number_path = path.split('.').filter_map(|number| number.parse().ok()).collect();
                }
            },
            Some(("patch", value)) => field.patch_strategy = Some(value),
            Some(("key", value)) => field.patch_merge_key = Some(value),
            Some(("list", value)) => field.list_type = Some(value),
            Some(("map", value)) => field.map_type = Some(value),
            Some(("format", value)) => field.format = Some(value),
            Some(("default", value)) => field.default = Some(value),
            Some(("keys", value)) => field.list_map_keys = value.split(';').collect(),
            Some(_) => {}
        }
    }
    field
}

fn ty(text: &'static str, names: &FxHashMap<&'static str, StructId>) -> Ty {
    if let Some(rest) = text.strip_prefix('*') {
        return Ty::Pointer(Box::new(ty(rest, names)));
    }
    if let Some(rest) = text.strip_prefix("[]") {
        return Ty::List(Box::new(ty(rest, names)));
    }
    if let Some(rest) = text.strip_prefix("{}") {
        return Ty::Map(Box::new(ty(rest, names)));
    }
    if let Some(name) = text.strip_prefix('@') {
        return Ty::Struct(names[name]);
    }
    let (kind, go_name) = text.split_once(':').unwrap_or((text, text));
    match kind {
        "string" => Ty::String(go_name),
        "bool" => Ty::Bool,
        "int32" => Ty::Int32,
        "int64" | "int" => Ty::Int64,
        "float64" => Ty::Float,
        "quantity" => Ty::Quantity,
        "time" => Ty::Time,
        "microtime" => Ty::MicroTime,
        "duration" => Ty::Duration,
        "intorstring" => Ty::IntOrString,
        "bytes" => Ty::Bytes,
        _ => Ty::Raw,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_found_with_its_fields_in_order() {
        let types = Types::get();
        let pod = types.at(types.kind("v1", "Pod").unwrap());
        let names: Vec<_> = pod.fields.iter().map(|field| field.name).collect();
        assert_eq!(names, ["kind", "apiVersion", "metadata", "spec", "status"]);
        let spec = types.at(types.named("io.k8s.api.core.v1.PodSpec").unwrap());
        let containers = &spec.fields[spec.field("containers").unwrap()];
        assert_eq!(containers.patch_merge_key, Some("name"));
        assert!(!containers.omit_empty);
    }

    #[test]
    fn every_word_of_the_table_is_understood() {
        let types = Types::get();
        assert!(types.kinds().len() > 80);
        for line in include_str!("../data/types.txt").lines().filter(|line| line.starts_with(' ')) {
            let ty = line.trim_start().split(' ').nth(1).unwrap().trim_start_matches(['*', '[', ']', '{', '}']);
            let known = ["string", "bool", "int", "int32", "int64", "float64", "quantity", "time", "microtime"];
            let rest = ["duration", "intorstring", "bytes", "raw", "fields", "json"];
            let kind = ty.split(':').next().unwrap();
            assert!(ty.starts_with('@') || known.contains(&kind) || rest.contains(&kind), "{line}");
        }
    }
}
