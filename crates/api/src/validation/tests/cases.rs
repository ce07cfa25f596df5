//! Objects that must be admitted or refused, each for one behaviour. Plain data, so that the same table can be put to a
//! real API server.

mod capacitybuffer;
mod ec2nodeclass;
mod nodeclaim;
mod nodeoverlay;
mod nodepool;

use serde_json::{Value, json};

pub(super) struct Case {
    /// The behaviour it shows.
    pub(super) id: &'static str,
    pub(super) object: Value,
    /// The object before an update; none for a creation.
    pub(super) old: Option<Value>,
    /// `None` when it is admitted, else the field at fault.
    pub(super) refused: Option<&'static str>,
}

pub(super) fn all() -> Vec<Case> {
    let mut cases = nodepool::cases();
    cases.extend(nodeclaim::cases());
    cases.extend(nodeoverlay::cases());
    cases.extend(capacitybuffer::cases());
    cases.extend(ec2nodeclass::cases());
    cases
}

/// Cases around one good object.
struct Table {
    base: Value,
    cases: Vec<Case>,
}

impl Table {
    fn new(base: Value) -> Self {
        Self { base, cases: Vec::new() }
    }

    /// The base with the values at these JSON pointers replaced; null removes.
    fn changed(&self, changes: &[(&str, Value)]) -> Value {
        let mut object = self.base.clone();
        for (pointer, value) in changes {
            set(&mut object, pointer, value.clone());
        }
        object
    }

    fn admits(&mut self, id: &'static str, pointer: &str, values: impl IntoIterator<Item = Value>) {
        for value in values {
            self.admits_all(id, &[(pointer, value)]);
        }
    }

    fn admits_all(&mut self, id: &'static str, changes: &[(&str, Value)]) {
        let object = self.changed(changes);
        self.cases.push(Case { id, object, old: None, refused: None });
    }

    /// Refused with a fault at `field`, which stands for everything below it as well.
    fn refuses(
        &mut self,
        id: &'static str,
        field: &'static str,
        pointer: &str,
        values: impl IntoIterator<Item = Value>,
    ) {
        for value in values {
            self.refuses_all(id, field, &[(pointer, value)]);
        }
    }

    fn refuses_all(&mut self, id: &'static str, field: &'static str, changes: &[(&str, Value)]) {
        let object = self.changed(changes);
        self.cases.push(Case { id, object, old: None, refused: Some(field) });
    }

    fn update(
        &mut self,
        id: &'static str,
        refused: Option<&'static str>,
        old: &[(&str, Value)],
        new: &[(&str, Value)],
    ) {
        let (old, object) = (Some(self.changed(old)), self.changed(new));
        self.cases.push(Case { id, object, old, refused });
    }
}

fn set(object: &mut Value, pointer: &str, value: Value) {
    let (parent, last) = pointer.rsplit_once('/').expect("a pointer starts with a slash");
    if object.pointer(parent).is_none() {
        set(object, parent, json!({}));
    }
    let last = last.replace("~1", "/").replace("~0", "~");
    match object.pointer_mut(parent).expect("the parent was just made") {
        Value::Object(map) if value.is_null() => {
            map.remove(&last);
        }
        Value::Object(map) => {
            map.insert(last, value);
        }
        Value::Array(items) => items[last.parse::<usize>().expect("an index")] = value,
        _ => panic!("{parent} is neither object nor list"),
    }
}

/// Texts as JSON values.
fn texts<const N: usize>(texts: [&str; N]) -> [Value; N] {
    texts.map(Value::from)
}

/// Keys that are no qualified names, and keys that are.
const BAD_KEYS: [&str; 5] = ["test.com.com}", "Test.com/test", "test/test/test", "test/", "/test"];
const GOOD_KEYS: [&str; 3] = ["Test", "test.com/Test", "test.com.com/test"];

/// A NodePool template's spec or a NodeClaim's, which share most rules. `field` and `pointer` lead there.
fn template_cases(table: &mut Table, ids: TemplateIds, field: TemplateFields, pointer: &str) {
    let at = |name: &str| format!("{pointer}/{name}");
    table.admits(ids.durations, &at("expireAfter"), texts(["30s", "1h30m5s", "Never"]));
    table.refuses(ids.durations, field.expire_after, &at("expireAfter"), texts(["-1s", "1hr", "FooNever", ""]));
    table.refuses(ids.durations, field.expire_after, &at("expireAfter"), [json!(30)]);
    let grace = at("terminationGracePeriod");
    table.admits(ids.grace, &grace, texts(["30s", "1h30m5s"]));
    table.refuses(ids.grace, field.grace, &grace, texts(["-1s", "1hr", "Never", "FooNever"]));

    for (list, path) in [("taints", field.taints), ("startupTaints", field.startup_taints)] {
        let taint = |key: &str| json!([{"key": key, "value": "v", "effect": "NoSchedule"}]);
        table.admits(ids.taints, &at(list), GOOD_KEYS.map(taint));
        table.admits(
            ids.taints,
            &at(list),
            [
                json!([{"key": "a", "effect": "NoExecute"}]),
                json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]),
            ],
        );
        table.refuses(ids.taints, path, &at(list), BAD_KEYS.map(taint));
        table.refuses(
            ids.taints,
            path,
            &at(list),
            [
                json!([{"value": "v", "effect": "NoSchedule"}]),
                json!([{"key": "", "effect": "NoSchedule"}]),
                json!([{"key": "a", "value": "???", "effect": "NoSchedule"}]),
                json!([{"key": "a", "effect": "???"}]),
                json!([{"key": "a"}]),
            ],
        );
    }

    let requirements = at("requirements");
    let exists = |key: &str| json!([{"key": key, "operator": "Exists"}]);
    table.admits(ids.keys, &requirements, GOOD_KEYS.map(exists));
    table.refuses(ids.keys, field.requirements, &requirements, BAD_KEYS.map(exists));
    table.refuses(
        ids.keys,
        field.requirements,
        &requirements,
        [json!([{"operator": "Exists"}]), exists(&format!("{}/a", "a".repeat(320)))],
    );
    let by = |op: &str, values: Value| json!([{"key": "a", "operator": op, "values": values}]);
    table.admits(
        ids.operators,
        &requirements,
        [
            by("In", json!(["x"])),
            by("NotIn", json!(["x"])),
            by("Exists", Value::Null),
            by("DoesNotExist", json!([])),
            by("Gt", json!(["1"])),
            by("Lt", json!(["1"])),
            by("Gte", json!(["0"])),
            by("Lte", json!(["10"])),
        ],
    );
    table.refuses(
        ids.operators,
        field.requirements,
        &requirements,
        ["unknown", "in", ""].map(|op| by(op, json!(["1"]))),
    );
    for op in ["Gt", "Lt", "Gte", "Lte"] {
        for values in [json!([]), Value::Null, json!(["1", "2"]), json!(["a"]), json!(["-1"]), json!([""])] {
            table.refuses(ids.numeric, field.requirements, &requirements, [by(op, values)]);
        }
    }
    table.refuses(ids.empty_in, field.requirements, &requirements, [by("In", json!([])), by("In", Value::Null)]);
    table.admits(ids.empty_in, &requirements, [by("NotIn", json!([]))]);

    let floor = |op: &str, values: usize, floor: i64| {
        let values: Vec<String> = (0..values).map(|i| format!("v{i}")).collect();
        json!([{"key": "a", "operator": op, "values": values, "minValues": floor}])
    };
    table.refuses(ids.min_values, field.requirements, &requirements, [-1, 0, 51].map(|n| floor("In", 60, n)));
    table.refuses(ids.min_values, field.requirements, &requirements, [floor("In", 1, 2)]);
    table.admits(ids.min_values, &requirements, [floor("In", 2, 2), floor("Exists", 0, 50), floor("NotIn", 1, 2)]);
    let many = |count: usize| json!(vec![json!({"key": "a", "operator": "Exists"}); count]);
    let values: Vec<String> = (0..90).map(|i| format!("v{i}")).collect();
    table.admits(ids.min_values, &requirements, [by("In", json!(values))]);
    table.admits(ids.lengths, &requirements, [json!([]), many(100)]);
    table.refuses(ids.lengths, field.requirements, &requirements, [many(101), Value::Null]);
    table.admits(
        ids.same_key,
        &requirements,
        [json!([{"key": "k", "operator": "In", "values": ["a", "b"]}, {"key": "k", "operator": "NotIn", "values": ["a", "c"]}])],
    );

    for name in ["group", "kind", "name"] {
        table.refuses(ids.class_ref, field.class_ref, &at(&format!("nodeClassRef/{name}")), [json!(""), Value::Null]);
    }
    table.refuses(ids.class_ref, field.class_ref, &at("nodeClassRef/group"), texts(["karpenter.k8s.aws/v1"]));
}

/// Which behaviour each group of template cases shows.
struct TemplateIds {
    durations: &'static str,
    grace: &'static str,
    taints: &'static str,
    keys: &'static str,
    operators: &'static str,
    numeric: &'static str,
    empty_in: &'static str,
    min_values: &'static str,
    lengths: &'static str,
    same_key: &'static str,
    class_ref: &'static str,
}

/// Where the faults are found.
struct TemplateFields {
    expire_after: &'static str,
    grace: &'static str,
    taints: &'static str,
    startup_taints: &'static str,
    requirements: &'static str,
    class_ref: &'static str,
}
