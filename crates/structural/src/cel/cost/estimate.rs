//! An estimate from the sizes a schema allows, before a rule is accepted.

use std::collections::BTreeMap;

use super::super::ast::{ACCU, Expr, Fold, Kind, Literal};
use super::super::check::Checked;
use super::super::types::{Decl, Type};
use super::{REGEX, TRAVERSAL, factor};

/// A range of sizes or costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    min: u64,
    max: u64,
}

impl Span {
    const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    const fn exactly(value: u64) -> Self {
        Self { min: value, max: value }
    }

    fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn factor(self, per: f64) -> Self {
        Self { min: factor(self.min, per), max: factor(self.max, per) }
    }

    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// The sizes of what is inside of a list or map that the expression itself made.
#[derive(Clone, Copy, Debug)]
struct Entries {
    list: bool,
    key: Span,
    value: Span,
}

impl Entries {
    fn union(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (one, other) = (one?, other?);
        Some(Self { list: one.list, key: one.key.union(other.key), value: one.value.union(other.value) })
    }
}

/// The most an expression can cost over values as declared.
pub(crate) fn estimate(expr: &Expr, checked: &Checked, root: &Decl) -> u64 {
    let count = checked.types.len();
    let mut estimator = Estimator {
        checked,
        root,
        paths: vec![Vec::new(); count],
        sizes: vec![None; count],
        entries: vec![None; count],
        locals: BTreeMap::new(),
    };
    estimator.cost(expr).max
}

struct Local {
    path: Vec<String>,
    size: Option<Span>,
    entries: Option<Entries>,
}

struct Estimator<'a> {
    checked: &'a Checked,
    root: &'a Decl,
    /// Where the values of nodes come from: a variable, then fields, `@items`, `@values`, `@keys`.
    paths: Vec<Vec<String>>,
    sizes: Vec<Option<Span>>,
    entries: Vec<Option<Entries>>,
    locals: BTreeMap<String, Vec<Local>>,
}

impl Estimator<'_> {
    fn cost(&mut self, expr: &Expr) -> Span {
        match &expr.kind {
            Kind::Literal(_) => Span::exactly(0),
            Kind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths[expr.id] = path;
                Span::exactly(1)
            }
            Kind::Select { operand, field, test } => self.select(expr, operand, field, *test),
            Kind::Call { target, function, args } => self.call(expr, target.as_deref(), function, args),
            Kind::List(items, _) => {
                let mut sum = Span::exactly(10);
                let mut size = Span { min: if items.is_empty() { 0 } else { u64::MAX }, max: 0 };
                for item in items {
                    sum = sum.plus(self.cost(item));
                    size = size.union(self.size(item).unwrap_or(Span::UNKNOWN));
                }
                self.entries[expr.id] = Some(Entries { list: true, key: Span::exactly(1), value: size });
                sum
            }
            Kind::Map(entries) => {
                let mut sum = Span::exactly(30);
                let least = if entries.is_empty() { 0 } else { u64::MAX };
                let (mut key, mut value) = (Span { min: least, max: 0 }, Span { min: least, max: 0 });
                for entry in entries {
                    sum = sum.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    key = key.union(self.size(&entry.key).unwrap_or(Span::UNKNOWN));
                    value = value.union(self.size(&entry.value).unwrap_or(Span::UNKNOWN));
                }
                self.entries[expr.id] = Some(Entries { list: false, key, value });
                sum
            }
            Kind::Fold(fold) => self.fold(expr, fold),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name).and_then(|locals| locals.last())
    }

    fn ty(&self, expr: &Expr) -> &Type {
        &self.checked.types[expr.id]
    }

    fn path(&self, expr: &Expr) -> Vec<String> {
        if let Kind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths[expr.id].clone()
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, test: bool) -> Span {
        let sum = self.cost(operand);
        if test {
            return sum;
        }
        let mut path = self.path(operand);
        path.push(field.to_owned());
        self.paths[expr.id] = path;
        match self.ty(operand) {
            Type::Map(..) | Type::Object(_) | Type::Param(_) => sum.plus(Span::exactly(1)),
            _ => sum,
        }
    }

    /// The size of a node's value, where something is known of it.
    fn size(&mut self, expr: &Expr) -> Option<Span> {
        if let Some(size) = self.sizes[expr.id] {
            return Some(size);
        }
        match &expr.kind {
            Kind::Literal(literal) => {
                return Some(Span::exactly(match literal {
                    Literal::String(text) => text.chars().count() as u64,
                    Literal::Bytes(bytes) => bytes.len() as u64,
                    _ => 1,
                }));
            }
            Kind::List(items, _) => return Some(Span::exactly(items.len() as u64)),
            Kind::Map(entries) => return Some(Span::exactly(entries.len() as u64)),
            _ => {}
        }
        if let Some(size) = self.declared(&self.path(expr)) {
            self.sizes[expr.id] = Some(size);
            return Some(size);
        }
        if is_scalar(self.ty(expr)) {
            return Some(Span::exactly(1));
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn declared(&self, path: &[String]) -> Option<Span> {
        let (first, rest) = path.split_first()?;
        if first == ACCU {
            return None;
        }
        let text = Decl { ty: Type::String, max_elements: 0, min_size: 0, fields: BTreeMap::new(), element: None };
        let mut at = self.root;
        for name in rest {
            at = match name.as_str() {
                "@items" | "@values" => at.element.as_deref()?,
                // The keys of a map are strings of no declared length.
                "@keys" if at.element.is_some() => return Some(Span { min: 0, max: text.max_elements }),
                name => at.fields.get(name)?,
            };
        }
        Some(Span { min: 0, max: at.max_elements })
    }

    fn entry_sizes(&self, expr: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries[expr.id] {
            return Some(entries);
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.entries),
            _ => None,
        }
    }

    fn push(&mut self, name: &str, local: Local) {
        self.locals.entry(name.to_owned()).or_default().push(local);
    }

    fn pop(&mut self, name: &str) {
        if let Some(locals) = self.locals.get_mut(name) {
            locals.pop();
        }
    }

    fn push_value_of(&mut self, name: &str, expr: &Expr) {
        let local = Local { path: self.path(expr), size: self.size(expr), entries: self.entry_sizes(expr) };
        self.push(name, local);
    }

    fn push_from(&mut self, name: &str, range: &Expr, keys: bool) {
        let entries = self.entry_sizes(range);
        let list = entries.map_or_else(|| matches!(self.ty(range), Type::List(_)), |entries| entries.list);
        let mut path = self.path(range);
        let step = match (keys, list) {
            (true, true) => "@indices",
            (true, false) => "@keys",
            (false, true) => "@items",
            (false, false) => "@values",
        };
        path.push(step.to_owned());
        let size = entries.map(|entries| if keys { entries.key } else { entries.value });
        self.push(name, Local { path, size, entries: None });
    }

    fn fold(&mut self, expr: &Expr, fold: &Fold) -> Span {
        let mut sum = self.cost(&fold.range).plus(self.cost(&fold.init));
        let bind = matches!(&fold.range.kind, Kind::List(items, _) if items.is_empty()) && fold.accu != ACCU;
        self.push_value_of(&fold.accu, &fold.init);
        if bind {
            sum = sum.plus(self.cost(&fold.result));
            let (size, entries) = (self.size(&fold.result), self.entry_sizes(&fold.result));
            self.pop(&fold.accu);
            self.sizes[expr.id] = size;
            self.entries[expr.id] = entries;
            return sum;
        }
        match &fold.var2 {
            Some(var2) => {
                self.push_from(&fold.var, &fold.range, true);
                self.push_from(var2, &fold.range, false);
            }
            None => {
                let entries = self.entry_sizes(&fold.range);
                let list = entries.map_or_else(|| matches!(self.ty(&fold.range), Type::List(_)), |it| it.list);
                self.push_from(&fold.var, &fold.range, !list);
            }
        }
        let each = self.cost(&fold.condition).plus(self.cost(&fold.step));
        self.pop(&fold.var);
        if let Some(var2) = &fold.var2 {
            self.pop(var2);
        }
        sum = sum.plus(self.cost(&fold.result));
        self.pop(&fold.accu);
        let rounds = self.size(&fold.range).unwrap_or(Span::UNKNOWN);
        sum = sum.plus(rounds.times(each));
        match &fold.init.kind {
            Kind::Literal(_) => self.sizes[expr.id] = self.size(&fold.init),
            Kind::List(..) | Kind::Map(_) => {
                self.sizes[expr.id] = Some(rounds);
                if let Some(entries) = self.entry_sizes(&fold.step) {
                    self.entries[expr.id] = Some(entries);
                }
            }
            _ => {}
        }
        sum
    }

    fn call(&mut self, expr: &Expr, target: Option<&Expr>, function: &str, args: &[Expr]) -> Span {
        if let ("dyn", [arg]) = (function, args) {
            let cost = self.cost(arg).plus(Span::exactly(1));
            self.sizes[expr.id] = self.size(arg);
            self.entries[expr.id] = self.entry_sizes(arg);
            return cost;
        }
        let qualified = self.checked.qualified.get(&expr.id).cloned();
        let costs: Vec<Span> = args.iter().map(|arg| self.cost(arg)).collect();
        let mut sum = Span::exactly(0);
        let target = target.filter(|_| qualified.is_none());
        if let Some(target) = target {
            sum = sum.plus(self.cost(target));
        }
        let function = qualified.as_deref().unwrap_or(function);
        let overloads = self.checked.overloads[expr.id].clone();
        let mut cost: Option<Span> = None;
        let mut result: Option<Span> = None;
        for overload in overloads {
            let (of_call, size) = self.of_overload(expr, function, overload, target, args, &costs);
            cost = Some(cost.map_or(of_call, |cost| cost.union(of_call)));
            if let Some(size) = size {
                result = Some(result.map_or(size, |result| result.union(size)));
            }
            let step = match overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), Some(of)) = (step, args.first()) {
                result = self.entry_sizes(of).map(|entries| entries.value);
                let mut path = self.path(of);
                path.push(step.to_owned());
                self.paths[expr.id] = path;
            }
            if overload == "select_optional_field"
                && let (Some(of), Some(Kind::Literal(Literal::String(field)))) =
                    (args.first(), args.get(1).map(|it| &it.kind))
            {
                let mut path = self.path(of);
                path.push(field.clone());
                self.paths[expr.id] = path;
            }
            if result.is_none() {
                result = self.size(expr);
            }
        }
        if result.is_some() {
            self.sizes[expr.id] = result;
        }
        sum.plus(cost.unwrap_or(Span::exactly(0)))
    }

    /// What one way of calling costs, with its arguments, and how large its result is.
    fn of_overload(
        &mut self,
        expr: &Expr,
        function: &str,
        overload: &str,
        target: Option<&Expr>,
        args: &[Expr],
        costs: &[Span],
    ) -> (Span, Option<Span>) {
        let arguments = costs.iter().fold(Span::exactly(0), |sum, cost| sum.plus(*cost));
        let given: Vec<&Expr> = target.into_iter().chain(args).collect();
        let sizes: Vec<Span> = given.iter().map(|arg| self.size(arg).unwrap_or(Span::UNKNOWN)).collect();
        let size = |at: usize| sizes.get(at).copied().unwrap_or(Span::UNKNOWN);
        let one = Span::exactly(1);
        let regex = |text: Span, pattern: Span| text.plus(one).factor(TRAVERSAL).times(pattern.factor(REGEX));
        let (cost, result) = match (function, overload) {
            (_, "logical_and" | "logical_or") => {
                return (Span { min: costs[0].min, max: costs[0].plus(costs[1]).max }, None);
            }
            (_, "conditional") => {
                self.entries[expr.id] = Entries::union(self.entry_sizes(&args[1]), self.entry_sizes(&args[2]));
                return (costs[0].plus(costs[1].union(costs[2])), Some(size(1).union(size(2))));
            }
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", _) => {
                let Some(target) = target else { return (one.plus(arguments), None) };
                match self.ty(target).clone() {
                    Type::List(item) => {
                        let mut each = one;
                        if matches!(*item, Type::String | Type::Bytes) {
                            let mut path = self.path(target);
                            path.push("@items".to_owned());
                            each = each.plus(self.declared(&path).unwrap_or(Span::UNKNOWN).factor(TRAVERSAL));
                        }
                        (size(0).times(each), None)
                    }
                    _ => (size(0).factor(TRAVERSAL), None),
                }
            }
            ("url" | "lowerAscii" | "upperAscii" | "substring" | "trim", _) => {
                (size(0).factor(TRAVERSAL), Some(size(0)))
            }
            ("replace", _) => (size(0).factor(2.0 * TRAVERSAL), Some(replaced(size(0), size(1), size(2)))),
            ("split", _) => {
                let limit = match args.get(1).map(|arg| &arg.kind) {
                    Some(Kind::Literal(Literal::Int(limit))) => u64::try_from(*limit).unwrap_or(u64::MAX),
                    _ => size(0).max,
                };
                (size(0).factor(2.0 * TRAVERSAL), Some(Span { min: 0, max: limit }))
            }
            ("join", _) => {
                let mut path = target.map(|target| self.path(target)).unwrap_or_default();
                path.push("@items".to_owned());
                let item = if path.len() > 1 { self.declared(&path) } else { None };
                let mut total = size(0).times(item.unwrap_or(Span::UNKNOWN));
                if !args.is_empty() {
                    let gaps = Span { min: size(0).min.saturating_sub(1), max: size(0).max.saturating_sub(1) };
                    total = total.plus(size(1).times(gaps));
                }
                (total.factor(TRAVERSAL), Some(total))
            }
            ("find" | "findAll", _) => (regex(size(0), size(1)), Some(Span { min: 0, max: size(0).max })),
            ("matches", "matches_string") => (regex(size(0), size(1)), None),
            ("contains", _) => (size(0).factor(TRAVERSAL).times(size(1).factor(TRAVERSAL)), None),
            ("startsWith" | "endsWith", _) => (size(1).factor(TRAVERSAL), None),
            ("cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver", _)
            | (_, "string_to_ip") => (size(0).factor(TRAVERSAL), None),
            ("ip.isCanonical", _) => (size(0).factor(2.0 * TRAVERSAL), None),
            ("containsIP" | "containsCIDR", _) => {
                let bytes = Span { min: 4, max: 16 };
                let mut cost = bytes.plus(bytes).factor(TRAVERSAL);
                if function == "containsCIDR" {
                    cost = cost.plus(bytes.factor(TRAVERSAL)).plus(one);
                }
                if overload.ends_with("_string") {
                    cost = cost.plus(size(1).factor(TRAVERSAL));
                }
                (cost, None)
            }
            ("validate", _) => (size(1).factor(TRAVERSAL).factor(128.0 * REGEX), None),
            (_, "in_list") => (size(1), None),
            ("format", _) => (size(0).factor(TRAVERSAL), None),
            (_, "string_to_bytes") => {
                (size(0).factor(TRAVERSAL), Some(Span { min: size(0).min, max: size(0).max.saturating_mul(4) }))
            }
            (_, "bytes_to_string") => {
                (size(0).factor(TRAVERSAL), Some(Span { min: size(0).min / 4, max: size(0).max }))
            }
            ("strings.quote", _) => {
                let most = size(0).max.saturating_mul(2).saturating_add(2);
                (size(0).factor(TRAVERSAL), Some(Span { min: size(0).min.saturating_add(2), max: most }))
            }
            (_, "add_string" | "add_bytes" | "add_list") => {
                let total = size(0).plus(size(1));
                let entries = Entries::union(self.entry_sizes(&args[0]), self.entry_sizes(&args[1]));
                if entries.is_some() {
                    self.entries[expr.id] = entries;
                }
                (if overload == "add_list" { one } else { total.factor(TRAVERSAL) }, Some(total))
            }
            ("_==_" | "_!=_", _) if args.iter().any(|arg| matches!(self.ty(arg), Type::Opaque(_))) => (one, None),
            (_, "equals" | "not_equals") => (compared(size(0), size(1)), None),
            (_, id) if id.ends_with("_string") && is_comparison(function) => (compared(size(0), size(1)), None),
            (_, id) if id.ends_with("_bytes") && is_comparison(function) => (compared(size(0), size(1)), None),
            ("slice" | "reverse" | "flatten" | "lists.range" | "sort" | "distinct" | "@sortByAssociatedKeys", _) => {
                let (size, per) = self.list_work(function, overload, &given, &sizes);
                (size.factor(per).plus(Span::exactly(11)), Some(size))
            }
            ("sets.contains" | "sets.intersects", _) => (size(0).times(size(1)).plus(one), None),
            ("sets.equivalent", _) => (size(0).times(size(1)).factor(2.0).plus(one), None),
            _ => (one, None),
        };
        (cost.plus(arguments), result)
    }
}

impl Estimator<'_> {
    /// How large a list a function of the lists library makes or compares, and the work per element.
    fn list_work(&self, function: &str, overload: &str, given: &[&Expr], sizes: &[Span]) -> (Span, f64) {
        let size = |at: usize| sizes.get(at).copied().unwrap_or(Span::UNKNOWN);
        let literal = |at: usize, otherwise: u64| match given.get(at).map(|arg| &arg.kind) {
            Some(Kind::Literal(Literal::Int(value))) => u64::try_from(*value).unwrap_or(0),
            _ => otherwise,
        };
        let texts = if overload.contains("_string_") || overload.contains("_bytes_") { TRAVERSAL } else { 0.0 };
        match function {
            "slice" => (Span::exactly(literal(2, size(0).max).wrapping_sub(literal(1, 0))), 1.0),
            "lists.range" => (Span::exactly(literal(0, u64::MAX)), 1.0),
            #[expect(clippy::cast_precision_loss, reason = "costs saturate")]
            "flatten" => (size(0), if given.len() > 1 { literal(1, u64::MAX) as f64 } else { 1.0 }),
            "distinct" => (size(0).times(size(0)), 2.0),
            "sort" => (size(0).times(size(0)), 2.0 + texts),
            "@sortByAssociatedKeys" => (size(1).times(size(1)), 2.0 + texts),
            _ => (size(0), 1.0),
        }
    }
}

fn is_comparison(function: &str) -> bool {
    matches!(function, "_<_" | "_<=_" | "_>_" | "_>=_")
}

fn compared(a: Span, b: Span) -> Span {
    let most = a.max.min(b.max);
    Span { min: u64::from(most > 0), max: most }.factor(TRAVERSAL)
}

/// The size of a text in which parts of one size were replaced by others.
fn replaced(text: Span, old: Span, new: Span) -> Span {
    let (mut count, mut kept) = (Span::exactly(0), Span::exactly(0));
    if old.min == 0 {
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if new.max <= old.min {
        kept.max = text.max;
    } else {
        count.max = text.max.div_ceil(old.min);
    }
    if old.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if old.max <= new.min {
        kept.min = text.min;
    } else {
        count.min = text.min.div_ceil(old.max);
    }
    count.times(new).plus(kept)
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(of) => is_scalar(of),
        _ => false,
    }
}
