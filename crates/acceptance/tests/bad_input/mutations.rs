//! One thing changed in a good object, as a slip of the hand or of a template would.

use serde_json::{Map, Value, json};

/// Numbers that look random and are always the same.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    pub(crate) fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

pub(crate) struct Mutant {
    pub(crate) object: Value,
    pub(crate) what: String,
}

/// Pods of a cluster refer to what is in it, which no single object tells.
const REFERENCES: [&str; 6] =
    ["/nodeClassRef", "priorityClassName", "runtimeClassName", "serviceAccountName", "/metadata/namespace", "/status"];

pub(crate) fn mutate(object: &Value, draw: &mut Draw) -> Option<Mutant> {
    let mut places = Vec::new();
    collect(object, "", &mut places);
    places.retain(|place| !REFERENCES.iter().any(|reference| place.contains(reference)));
    let place = draw.one_of(&places).clone();
    let (parent, key) = place.rsplit_once('/')?;
    let key = key.replace("~1", "/").replace("~0", "~");
    let mut mutant = object.clone();
    let before = object.pointer(&place)?.clone();
    let what = match (mutant.pointer_mut(parent)?, draw.below(8)) {
        (Value::Object(fields), 0) if !parent.is_empty() => {
            let name = slip(&key, draw);
            let renamed = fields
                .iter()
                .map(|(name_, value)| (if *name_ == key { name.clone() } else { name_.clone() }, value.clone()));
            *fields = renamed.collect::<Map<_, _>>();
            format!("{place} called {name}")
        }
        (Value::Object(fields), 1) => {
            fields.shift_remove(&key);
            format!("no {place}")
        }
        (Value::Array(items), 0 | 1) => {
            items.push(before.clone());
            format!("{place} twice")
        }
        (Value::Object(fields), _) => {
            let value = other(&before, draw);
            let what = format!("{place}: {value}");
            fields.insert(key, value);
            what
        }
        (Value::Array(items), _) => {
            let value = other(&before, draw);
            let what = format!("{place}: {value}");
            items[key.parse::<usize>().ok()?] = value;
            what
        }
        _ => return None,
    };
    (mutant != *object).then_some(Mutant { object: mutant, what })
}

/// Every place below the top but the version and kind, as JSON pointers.
fn collect(value: &Value, at: &str, places: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in
                fields.iter().filter(|(key, _)| !at.is_empty() || !["apiVersion", "kind"].contains(&key.as_str()))
            {
                let below = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                places.push(below.clone());
                collect(value, &below, places);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                let below = format!("{at}/{index}");
                places.push(below.clone());
                collect(value, &below, places);
            }
        }
        _ => {}
    }
}

/// Two neighbours swapped, or a letter left out.
fn slip(name: &str, draw: &mut Draw) -> String {
    let mut letters: Vec<char> = name.chars().collect();
    let at = draw.below(letters.len());
    if at + 1 < letters.len() && draw.below(2) == 0 && letters[at] != letters[at + 1] {
        letters.swap(at, at + 1);
    } else {
        letters.remove(at);
    }
    letters.into_iter().collect()
}

/// A value of another type, or one of the same that may be wrong.
fn other(value: &Value, draw: &mut Draw) -> Value {
    let any = [json!("two"), json!(7), json!(true), json!([]), json!({}), json!(["x"]), json!({"x": 1}), json!(1.5)];
    match value {
        Value::Number(_) => {
            let same = [json!(-1), json!(0), json!(99_999_999_999_i64), json!(101)];
            if draw.below(3) == 0 { draw.one_of(&any).clone() } else { draw.one_of(&same).clone() }
        }
        Value::String(_) => {
            let long = "x".repeat(70);
            let same = [
                json!(""),
                json!("Bad Value!"),
                json!("-2"),
                json!("1x"),
                json!("Unknown"),
                json!(long),
                json!("0"),
                json!("-5%"),
            ];
            if draw.below(3) == 0 { draw.one_of(&any).clone() } else { draw.one_of(&same).clone() }
        }
        _ => draw.one_of(&any).clone(),
    }
}
