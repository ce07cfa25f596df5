//! Bounds and multiples of numbers.

use serde_json::{Number, Value};

use super::super::Schema;
use super::Outcome;
use crate::field::ErrorKind;
use crate::go;

pub(super) fn check(number: &Number, schema: &Schema, path: &str, out: &mut Outcome) {
    let float = number.as_f64().unwrap_or(f64::NAN);
    let range = Range::of(schema);
    if !range.holds(number.as_i64(), float) {
        out.plain(range.problem("Checked", path));
    }
    let mut bound = |limit: f64, role: &str, wrong: &dyn Fn(&Bound) -> Option<String>| {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "bounds are cut to integers for integers, as on the server"
        )]
        let native = number.as_i64().map(|value| (value, limit as i64));
        let bound = if range.holds(None, limit) {
            Bound { native, float: (float, limit) }
        } else {
            out.plain(range.problem(role, path));
            Bound { native: None, float: (float, limit) }
        };
        if let Some(what) = wrong(&bound) {
            let value = Value::Number(number.clone());
            out.field(ErrorKind::Invalid, path, value, format!("{path} in body {what}"));
        }
    };
    if let Some(factor) = schema.multiple_of {
        bound(factor, "MultipleOf", &Bound::not_multiple);
    }
    if let Some(max) = schema.maximum {
        bound(max, "Maximum boundary", &|bound| bound.above(schema.exclusive_maximum));
    }
    if let Some(min) = schema.minimum {
        bound(min, "Minimum boundary", &|bound| bound.below(schema.exclusive_minimum));
    }
}

/// A value and a limit, as integers where the value is one.
struct Bound {
    native: Option<(i64, i64)>,
    float: (f64, f64),
}

impl Bound {
    fn limit(&self) -> String {
        self.native.map_or_else(|| go::float64(self.float.1), |(_, limit)| limit.to_string())
    }

    fn above(&self, exclusive: bool) -> Option<String> {
        let order = self.order()?;
        let wrong = order.is_gt() || (exclusive && order.is_eq());
        let words = if exclusive { "should be less than" } else { "should be less than or equal to" };
        wrong.then(|| format!("{words} {}", self.limit()))
    }

    fn below(&self, exclusive: bool) -> Option<String> {
        let order = self.order()?;
        let wrong = order.is_lt() || (exclusive && order.is_eq());
        let words = if exclusive { "should be greater than" } else { "should be greater than or equal to" };
        wrong.then(|| format!("{words} {}", self.limit()))
    }

    fn order(&self) -> Option<std::cmp::Ordering> {
        match self.native {
            Some((value, limit)) => Some(value.cmp(&limit)),
            None => self.float.0.partial_cmp(&self.float.1),
        }
    }

    fn not_multiple(&self) -> Option<String> {
        let (value, factor) = self.float;
        let multiple = match self.native {
            Some((_, factor)) if factor <= 0 => false,
            Some((value, factor)) => value % factor == 0,
            None if factor <= 0.0 => false,
            None => is_json_integer(if factor < 1.0 { 1.0 / factor * value } else { value / factor }),
        };
        (!multiple).then(|| format!("should be a multiple of {}", self.limit()))
    }
}

/// What the type and format of the schema can hold.
enum Range<'a> {
    Int32,
    Int64 { format: &'a str },
    Float32,
    Any,
}

impl<'a> Range<'a> {
    fn of(schema: &'a Schema) -> Self {
        match (schema.kind.as_str(), schema.format.as_str()) {
            _ if schema.int_or_string => Self::Any,
            ("integer", "int32") => Self::Int32,
            ("integer", "int64") => Self::Int64 { format: "int64" },
            ("integer", _) => Self::Int64 { format: "" },
            ("number", "float") => Self::Float32,
            _ => Self::Any,
        }
    }

    fn holds(&self, integer: Option<i64>, float: f64) -> bool {
        let whole = |min: f64, max: f64| float.fract() == 0.0 && float >= min && float < max;
        match (self, integer) {
            (Self::Int32, Some(integer)) => i32::try_from(integer).is_ok(),
            (Self::Int32, None) => whole(-2_147_483_648.0, 2_147_483_648.0),
            (Self::Int64 { .. }, Some(_)) | (Self::Any, _) => true,
            (Self::Int64 { .. }, None) => whole(-9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0),
            (Self::Float32, _) => float.abs() <= f64::from(f32::MAX),
        }
    }

    fn problem(&self, role: &str, path: &str) -> String {
        match self {
            Self::Int64 { format: "" } => format!("{role} value must be of type integer (default format) in {path}"),
            Self::Int32 => format!("{role} value must be of type integer with format int32 in {path}"),
            Self::Int64 { format } => format!("{role} value must be of type integer with format {format} in {path}"),
            Self::Float32 | Self::Any => format!("{role} value must be of type number with format float in {path}"),
        }
    }
}

/// Whether a float is an integer that JavaScript could hold, give or take a rounding error.
pub(super) fn is_json_integer(value: f64) -> bool {
    const MAX_SAFE: f64 = 9_007_199_254_740_991.0;
    const EPSILON: f64 = 1e-9;
    if value.is_nan() || value.is_infinite() || value.abs() > MAX_SAFE {
        return false;
    }
    let rounded = value.round();
    let diff = (value - rounded).abs();
    if value == rounded {
        return true;
    }
    if value == 0.0 || rounded == 0.0 || diff < f64::MIN_POSITIVE {
        return diff < EPSILON * f64::MIN_POSITIVE;
    }
    diff / (value.abs() + rounded.abs()).min(f64::MAX) < EPSILON
}
