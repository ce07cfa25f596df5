use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema::{CheckOptions, Schema, check};

/// Whether a rule holds of a value under a schema; an error's text otherwise.
fn ask(schema: Value, rule: &str, value: Value, old: Option<Value>) -> Vec<String> {
    let mut schema = schema;
    schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
    let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": schema}})).unwrap();
    let rules = Rules::compile(&schema);
    let old = old.map(|old| json!({"spec": old}));
    let verdict = rules.validate(&json!({"spec": value}), old.as_ref(), "");
    verdict.errors.iter().map(ToString::to_string).collect()
}

/// Expressions that need no data are asked of an integer.
fn truth(expression: &str) -> Vec<String> {
    ask(json!({"type": "integer"}), expression, json!(1), None)
}

#[test]
fn the_language_and_its_libraries() {
    let mut wrong = Vec::new();
    for expression in [
        // arithmetic and comparison, across number types
        "1 + 2 * 3 == 7 && 7 / 2 == 3 && -7 % 3 == -1 && 2u + 3u == 5u && 1.5 + 1.5 == 3.0",
        "1 < 1.5 && 2u > 1 && dyn(1) == 1.0 && dyn(1) != 2u && -1 < 0u",
        "0x1F == 31 && -0x1F == -31 && 1e3 == 1000.0 && 'a' < 'b' && b'a' < b'b'",
        "true ? true : 1 / 0 == 0",
        "true || 1 / 0 == 0",
        "1 / 0 == 0 || true",
        "!(false && 1 / 0 == 0)",
        // literals
        r#"'a\n\u00e9' == "a\né" && r'\d' == '\\d' && '''x'y''' == "x'y" && b'\xff'.size() == 1"#,
        "[1, 2, 3][1] == 2 && {'a': 1}['a'] == 1 && {1: 'x'}[dyn(1u)] == 'x' && 2 in [1, 2] && 'a' in {'a': 1}",
        "[1] + [2] == [1, 2] && size([1, 2]) == 2 && 'héé'.size() == 3 && {'a': 1}.size() == 1",
        "type(1) == int && type('a') == string && type([1]) == list && type(type(1)) == type",
        // comprehensions
        "[1, 2, 3].all(x, x > 0) && [1, 2, 3].exists(x, x == 2) && [1, 2, 3].exists_one(x, x == 2)",
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6] && [1, 2, 3].map(x, x > 1, x * 2) == [4, 6] && [1, 2, 3].filter(x, x > 1) == [2, 3]",
        "{'a': 1, 'b': 2}.all(k, k in ['a', 'b']) && {'a': 1}.exists(k, k == 'a')",
        "[1, 2].exists(x, 1 / (x - 1) == 1)",
        "[5, 6].all(i, v, v == i + 5) && {'a': 1}.all(k, v, k == 'a' && v == 1) && [1].exists(i, v, v == 1)",
        "[3, 4].transformList(i, v, i + v) == [3, 5] && [3, 4].transformMap(i, v, v * 2) == {0: 6, 1: 8}",
        "{'a': 1}.transformMapEntry(k, v, {v: k}) == {1: 'a'} && [3, 4].transformList(i, v, i > 0, v) == [4]",
        "[1, 1].existsOne(i, v, i == 1) && !([1, 1].exists_one(v, v == 1))",
        // optionals
        "optional.of(1).value() == 1 && optional.none().orValue(3) == 3 && optional.of(1).hasValue()",
        "{'a': 1}[?'a'].orValue(2) == 1 && {'a': 1}[?'b'].orValue(2) == 2 && {'a': {'b': 1}}.?a.?b == optional.of(1)",
        "optional.of(2).optMap(x, x * 2).value() == 4 && !optional.none().optMap(x, x).hasValue()",
        "optional.of(1).orValue(1 / 0) == 1",
        "optional.of(2).optFlatMap(x, optional.of(x + 1)).value() == 3 && optional.none().or(optional.of(1)).value() == 1",
        "[?optional.none(), ?optional.of(1)] == [1] && {?'a': optional.of(1), ?'b': optional.none()} == {'a': 1}",
        "optional.ofNonZeroValue('') == optional.none() && optional.ofNonZeroValue(1).hasValue()",
        // strings
        "'tacocat'.charAt(3) == 'o' && 'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3 && 'hello'.indexOf('l', 3) == 3",
        "'TacoCat'.lowerAscii() == 'tacocat' && 'a'.upperAscii() == 'A' && ' x '.trim() == 'x' && 'abc'.substring(1, 2) == 'b'",
        "'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b' && 'aaa'.replace('a', 'b', 2) == 'bba'",
        "'%s is %d %.2f %x'.format(['a', 1, 1.5, 255]) == 'a is 1 1.50 ff' && '%s'.format([[1, 'a']]) == '[1, \"a\"]'",
        "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.matches('^a.c$') && matches('a', 'a')",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        // lists and sets
        "[1, 2].isSorted() && [1, 2].sum() == 3 && ['a', 'b'].max() == 'b' && [2, 1].min() == 1 && [1, 2, 1].lastIndexOf(1) == 2",
        "[[1], [2]].flatten() == [1, 2] && [3, 1].sort() == [1, 3] && [1, 1].distinct() == [1] && [1, 2].reverse() == [2, 1]",
        "lists.range(3) == [0, 1, 2] && [1, 2, 3].slice(1, 2) == [2] && [{'a': 2}, {'a': 1}].sortBy(e, e.a) == [{'a': 1}, {'a': 2}]",
        "sets.contains([1, 2], [1]) && sets.equivalent([1, 1], [1]) && sets.intersects([1], [1, 2]) && !sets.contains([1], [2])",
        // regex, urls, addresses
        "'abc 123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]') == ['1', '2'] && 'a1b2'.findAll('[0-9]', 1) == ['1']",
        "url('https://h:80/p?q=1').getHost() == 'h:80' && url('https://h:80/p').getPort() == '80' && isURL('http://x') && !isURL('x')",
        "url('https://h/p?q=1').getQuery()['q'] == ['1'] && url('/a').getScheme() == ''",
        "ip('10.0.0.1').family() == 4 && isIP('::1') && !isIP('010.0.0.1') && ip.isCanonical('::1') && ip('127.0.0.1').isLoopback()",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
        "cidr('10.0.0.0/8').prefixLength() == 8 && string(cidr('10.0.0.0/8').ip()) == '10.0.0.0' && isCIDR('::/0')",
        // quantities, versions, formats
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('500m').add(quantity('0.5')) == quantity('1') && quantity('1k').asInteger() == 1000",
        "quantity('1.5').compareTo(quantity('1500m')) == 0 && !isQuantity('x') && quantity('-1').sign() == -1 && quantity('2').sub(1).isInteger()",
        "semver('1.2.3').major() == 1 && semver('1.2.3').isLessThan(semver('1.10.0')) && isSemver('v1.2', true) && !isSemver('v1.2')",
        "semver('1.0.0-rc.1').compareTo(semver('1.0.0')) == -1",
        "!format.dns1123Label().validate('a-b').hasValue() && format.named('dns1123Label').value().validate('A').hasValue()",
        // times
        "duration('1h') > duration('59m') && duration('90m').getHours() == 1 && timestamp('2026-01-02T03:04:05Z').getFullYear() == 2026",
        "timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z') == duration('24h') && timestamp('2026-01-02T03:00:00Z').getHours('+02:00') == 5",
        "int('5') == 5 && string(1.0) == '1' && string(1000000.0) == '1e+06' && '%f %e'.format([1234.5, 0.5]) == '1,234.500000 5.000000×10⁻⁰¹' && double('1.5') == 1.5 && uint(3) == 3u && bool('true') && string(b'a') == 'a' && string(duration('90s')) == '90s'",
        "dyn(1) == 1 && dyn('a') != 1",
    ] {
        wrong.extend(truth(expression));
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn failures_say_why() {
    for (expression, want) in [
        ("1 == 2", "spec: Invalid value: 1: failed rule: 1 == 2"),
        ("[1][3] == 1", r#"spec: Invalid value: "integer": index out of bounds: 3 evaluating rule: [1][3] == 1"#),
        ("{'a': 1}['b'] == 1", r#"spec: Invalid value: "integer": no such key: b evaluating rule: {'a': 1}['b'] == 1"#),
        ("1 / 0 == 1", r#"spec: Invalid value: "integer": division by zero evaluating rule: 1 / 0 == 1"#),
        (
            "9223372036854775807 + 1 > 0",
            r#"spec: Invalid value: "integer": integer overflow evaluating rule: 9223372036854775807 + 1 > 0"#,
        ),
        (
            "[1].all(x, x / 0 == 1)",
            r#"spec: Invalid value: "integer": division by zero evaluating rule: [1].all(x, x / 0 == 1)"#,
        ),
        (
            "dyn(1) + dyn('a') == 1",
            r#"spec: Invalid value: "integer": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: dyn(1) + dyn('a') == 1"#,
        ),
    ] {
        assert_eq!(truth(expression), [want], "{expression}");
    }
}

#[test]
fn fields_are_reached_by_their_escaped_names_and_null_is_absent() {
    let schema = json!({"type": "object", "properties": {
        "if": {"type": "string"}, "a-b": {"type": "string"}, "n": {"type": "string", "nullable": true},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "ios": {"x-kubernetes-int-or-string": true}, "t": {"type": "string", "format": "date-time"},
        "d": {"type": "string", "format": "duration"}, "f": {"type": "number"}}});
    for (rule, value) in [
        ("self.__if__ == 'x' && self.a__dash__b == 'y'", json!({"if": "x", "a-b": "y"})),
        ("!has(self.n)", json!({"n": null})),
        (
            "has(self.m) && self.m['k-k'] == 1 && 'k-k' in self.m && self.m.all(k, self.m[k] > 0)",
            json!({"m": {"k-k": 1}}),
        ),
        ("type(self.ios) == int ? self.ios < 5 : self.ios.endsWith('%')", json!({"ios": "10%"})),
        ("type(self.ios) == int ? self.ios < 5 : self.ios.endsWith('%')", json!({"ios": 3})),
        ("self.t.getFullYear() == 2026 && self.d == duration('1h')", json!({"t": "2026-01-01T00:00:00Z", "d": "60m"})),
        ("self.f > 1.0", json!({"f": 2})),
        ("self.?n.orValue('none') == 'none'", json!({})),
    ] {
        assert_eq!(ask(schema.clone(), rule, value.clone(), None), Vec::<String>::new(), "{rule} {value}");
    }
    let error = ask(schema, "self.__if__ == 'x'", json!({}), None);
    assert_eq!(error, [r#"spec: Invalid value: "object": no such key: __if__ evaluating rule: self.__if__ == 'x'"#]);
}

#[test]
fn rules_about_change_see_the_old_value() {
    let number = json!({"type": "integer"});
    assert!(ask(number.clone(), "self >= oldSelf", json!(1), None).is_empty(), "not on creation");
    assert!(ask(number.clone(), "self >= oldSelf", json!(2), Some(json!(1))).is_empty());
    assert_eq!(
        ask(number, "self >= oldSelf", json!(1), Some(json!(2))),
        ["spec: Invalid value: 1: failed rule: self >= oldSelf"]
    );
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    assert!(ask(set, "self == oldSelf", json!(["a", "b"]), Some(json!(["b", "a"]))).is_empty());
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object",
        "properties": {"k": {"type": "string"}, "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}}}});
    let schema = Schema::parse(&json!({"type": "object", "properties": {"l": keyed}})).unwrap();
    let rules = Rules::compile(&schema);
    let old = json!({"l": [{"k": "a", "v": 1}, {"k": "b", "v": 5}]});
    let verdict =
        rules.validate(&json!({"l": [{"k": "b", "v": 4}, {"k": "a", "v": 2}, {"k": "c", "v": 0}]}), Some(&old), "");
    let errors: Vec<String> = verdict.errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["l[0].v: Invalid value: 4: failed rule: self >= oldSelf"]);
}

#[test]
fn optional_old_self_is_there_on_creation_too() {
    let schema = Schema::parse(&json!({"type": "object", "properties": {"v": {"type": "string", "x-kubernetes-validations": [
        {"rule": "!oldSelf.hasValue() || self == oldSelf.value()", "optionalOldSelf": true, "message": "immutable"}]}}})).unwrap();
    let rules = Rules::compile(&schema);
    assert!(rules.validate(&json!({"v": "a"}), None, "").errors.is_empty());
    assert!(rules.validate(&json!({"v": "a"}), Some(&json!({"v": "a"})), "").errors.is_empty());
    assert_eq!(
        rules.validate(&json!({"v": "b"}), Some(&json!({"v": "a"})), "").errors[0].to_string(),
        r#"v: Invalid value: "b": immutable"#
    );
}

#[test]
fn messages_reasons_and_paths() {
    let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "x-kubernetes-validations": [
            {"rule": "self.a < self.b", "messageExpression": "'a is %d'.format([self.a])", "reason": "FieldValueForbidden", "fieldPath": ".a"},
            {"rule": "self.a < self.b", "message": "plain", "messageExpression": "'' + ''"},
            {"rule": "self.a < self.b", "reason": "FieldValueRequired"},
            {"rule": "self.a < self.b", "reason": "FieldValueDuplicate", "fieldPath": ".b"}]}}})).unwrap();
    let verdict = Rules::compile(&schema).validate(&json!({"spec": {"a": 2, "b": 1}}), None, "");
    let errors: Vec<String> = verdict.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.a: Forbidden: a is 2",
            "spec: Invalid value: plain",
            "spec: Required value: failed rule: self.a < self.b",
            "spec.b: Duplicate value",
        ]
    );
}

#[test]
fn what_did_not_change_only_warns() {
    let schema = Schema::parse(&json!({"type": "object", "properties": {"a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]}, "b": {"type": "integer"}}})).unwrap();
    let rules = Rules::compile(&schema);
    let old = json!({"a": 1, "b": 1});
    let verdict = rules.validate(&json!({"a": 1, "b": 2}), Some(&old), "");
    assert_eq!((verdict.errors.len(), verdict.warnings.len()), (0, 1));
    assert_eq!(rules.validate(&json!({"a": 2, "b": 2}), Some(&old), "").errors.len(), 1);
}

#[test]
fn bad_rules_are_refused_with_the_crd() {
    let at = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]";
    let text = json!({"type": "string"});
    for (schema, rule, want) in [
        (
            text.clone(),
            json!({"rule": "self.x"}),
            "compilation failed: ERROR: <input>:1:5: type 'string' does not support field selection\n | self.x\n | ....^",
        ),
        (
            text.clone(),
            json!({"rule": "foo == 1"}),
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo == 1\n | ^",
        ),
        (
            text.clone(),
            json!({"rule": "self > 1"}),
            "compilation failed: ERROR: <input>:1:6: found no matching overload for '_>_' applied to '(string, int)'\n | self > 1\n | .....^",
        ),
        (
            text.clone(),
            json!({"rule": "self.size(1) == 1"}),
            "found no matching overload for 'size' applied to 'string.(int)'",
        ),
        (text.clone(), json!({"rule": "'a'"}), "cel expression must evaluate to a bool"),
        (text.clone(), json!({"rule": "[1, 'a'].size() > 0"}), "expected type 'int' but found 'string'"),
        (text.clone(), json!({"rule": "self.matches('(')"}), "invalid matches argument"),
        (
            text.clone(),
            json!({"rule": "'%d'.format([self]) == ''"}),
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (text.clone(), json!({"rule": "'%s'.format([]) == ''"}), "index 0 out of range"),
        (
            text.clone(),
            json!({"rule": "true", "messageExpression": "1"}),
            "messageExpression must evaluate to a string",
        ),
        (
            text.clone(),
            json!({"rule": "true", "optionalOldSelf": true}),
            "may not be set if oldSelf is not used in rule",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            json!({"rule": "self.b == ''"}),
            "undefined field 'b'",
        ),
        (
            json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}),
            json!({"rule": "self.all(x, x.all(y, self.all(z, z.exists(w, w == y))))"}),
            "estimated rule cost exceeds budget by factor of more than 100x",
        ),
    ] {
        let mut schema = schema;
        schema["x-kubernetes-validations"] = json!([rule]);
        let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": schema}})).unwrap();
        let errors = check(&schema, "spec.validation", CheckOptions::default());
        assert!(!errors.is_empty(), "{rule}");
        assert!(errors[0].field.starts_with(at) && errors[0].detail.contains(want), "{rule}: {}", errors[0]);
    }
    let schema = Schema::parse(&json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}})).unwrap();
    let errors = check(&schema, "spec.validation", CheckOptions::default());
    assert!(errors.iter().any(|error| error.detail == "oldSelf cannot be used on the uncorrelatable portion of the schema within spec.validation.openAPIV3Schema.properties[l]"), "{errors:?}");
}

#[test]
fn a_runaway_rule_is_stopped() {
    let schema = json!({"type": "array", "items": {"type": "integer"}});
    let value = Value::Array((0..2000).map(Value::from).collect());
    let errors = ask(schema, "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))", value, None);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("operation cancelled: actual cost limit exceeded"), "{errors:?}");
}

#[test]
fn depth_does_not_overflow_the_stack() {
    for source in [
        format!("{}true{}", "(".repeat(190), ")".repeat(190)),
        format!("{}true", "!".repeat(190)),
        format!("{}[{}].size() >= 0", "[".repeat(150), "]".repeat(150)),
        format!("{} > 0", vec!["1"; 180].join(" + ")),
        format!("{}x > 0{}", "[1].all(x, ".repeat(60), ")".repeat(60)),
    ] {
        let _ = truth(&source);
    }
}

/// Pieces that make expressions more often than not.
const PIECES: [&str; 44] = [
    "self",
    "oldSelf",
    "1",
    "-1",
    "2u",
    "1.5",
    "'a'",
    "b'a'",
    "true",
    "null",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ".",
    ",",
    ":",
    "?",
    "+",
    "-",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    ">=",
    "&&",
    "||",
    "!",
    " in ",
    ".all(x, ",
    ".map(x, ",
    "x",
    ".size()",
    ".?a",
    "has(self.a)",
    "[?",
    ".a",
    "duration('1h')",
    "quantity('1')",
    ".sort()",
];

proptest! {
    #[test]
    fn no_expression_makes_it_panic(pieces in prop::collection::vec(0..PIECES.len(), 1..24)) {
        let source: String = pieces.iter().map(|at| PIECES[*at]).collect();
        let schema = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}});
        let _ = ask(schema, &source, json!({"a": [1, 2]}), Some(json!({"a": [2]})));
    }
}
