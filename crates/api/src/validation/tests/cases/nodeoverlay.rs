use super::*;

const REQUIREMENTS: &str = "/spec/requirements";
const FIELD: &str = "spec.requirements";

fn base() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "overlay"},
        "spec": {"requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]},
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut table = Table::new(base());
    table.refuses_all("API-NO-01", "spec", &[("/spec/price", json!("1")), ("/spec/priceAdjustment", json!("+1"))]);
    table.admits("API-NO-02", "/spec/price", texts(["43", "34.43", "0"]));
    let bad = [
        "+42", "-42", ".5", "42.", "42%", "3,14", "1e10", "0x42", "text", " 42", "42 ", "42.0.0", "-", ".", "-.42",
        "-0", "",
    ];
    table.refuses("API-NO-02", "spec.price", "/spec/price", texts(bad));
    let good = ["+1%", "-1%", "-100%", "+100.102%", "+298%", "+43", "-43", "+34.43", "-34.43", "-0.5", "+.5", "-99.9%"];
    table.admits("API-NO-03", "/spec/priceAdjustment", texts(good));
    let bad = ["1", "1.3", "1%", "-101%", "-100.5%", "+", "%", "+5.", "", "+1e3"];
    table.refuses("API-NO-03", "spec.priceAdjustment", "/spec/priceAdjustment", texts(bad));

    let exists = |key: &str| json!([{"key": key, "operator": "Exists"}]);
    table.admits(
        "API-NO-04",
        REQUIREMENTS,
        ["karpenter.sh/nodepool", "karpenter.k8s.aws/instance-family", "karpenter.k8s.aws/nitro-sandbox", "team"]
            .map(exists),
    );
    table.refuses(
        "API-NO-04",
        FIELD,
        REQUIREMENTS,
        [
            "kubernetes.io/hostname",
            "karpenter.sh/other",
            "karpenter.k8s.aws/instance-tenancy",
            "karpenter.k8s.aws/capacity-reservation-id",
            "karpenter.k8s.aws/capacity-reservation-type",
            "karpenter.k8s.aws/capacity-reservation-interruptible",
            "karpenter.k8s.aws/placement-group-id",
            "karpenter.k8s.aws/placement-group-partition",
        ]
        .map(exists),
    );
    let by = |op: &str, values: Value| json!([{"key": "a", "operator": op, "values": values}]);
    table.refuses(
        "API-NO-04",
        FIELD,
        REQUIREMENTS,
        [
            by("In", json!([])),
            by("NotIn", json!([])),
            by("Gt", json!(["a"])),
            by("Lte", json!(["1", "2"])),
            by("Eq", json!(["1"])),
        ],
    );
    table.admits("API-NO-04", REQUIREMENTS, [by("NotIn", json!(["x"])), by("Gte", json!(["5"])), json!([])]);
    table.refuses(
        "API-NO-04",
        FIELD,
        REQUIREMENTS,
        [Value::Null, json!(vec![json!({"key": "a", "operator": "Exists"}); 101])],
    );

    table.admits("API-NO-05", "/spec/capacity", [json!({"example.com/device": 4, "vpc.amazonaws.com/efa": "1"})]);
    table.refuses(
        "API-NO-05",
        "spec.capacity",
        "/spec/capacity",
        ["cpu", "memory", "ephemeral-storage", "pods"].map(|name| json!({name: "1"})),
    );
    table.admits("API-NO-06", "/spec/weight", [json!(1), json!(10000)]);
    table.refuses("API-NO-06", "spec.weight", "/spec/weight", [json!(0), json!(10001)]);
    table.cases
}
