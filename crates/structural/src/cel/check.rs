//! The type checker: gives every node its type, finds which overloads a call may mean, and refuses what cannot be right.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ast::{Expr, Fold, Issue, Kind, Literal};
use super::decls::{Overload, overloads};
use super::types::{Decl, Type};

/// What the checker found out, by node id.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) types: Vec<Type>,
    /// The ids of the overloads a call may mean.
    pub(crate) overloads: Vec<Vec<&'static str>>,
    /// Calls whose target turned out to be a namespace, with the whole name of their function.
    pub(crate) qualified: BTreeMap<usize, String>,
    pub(crate) uses_old_self: bool,
    pub(crate) result: Type,
}

/// Checks an expression of `count` nodes over variables, whose objects are declared.
pub(crate) fn check(
    expr: &Expr,
    count: usize,
    variables: &[(&str, Type)],
    objects: &BTreeMap<&str, &Decl>,
) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        types: vec![Type::Dyn; count],
        overloads: vec![Vec::new(); count],
        qualified: BTreeMap::new(),
        scopes: variables.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect(),
        objects,
        bindings: Vec::new(),
        issues: Vec::new(),
        uses_old_self: false,
    };
    let result = checker.expr(expr);
    if !checker.issues.is_empty() {
        checker.issues.sort_by_key(|issue| issue.at);
        return Err(checker.issues);
    }
    let types: Vec<Type> = checker.types.iter().map(|ty| checker.settled(ty)).collect();
    let result = checker.settled(&result);
    Ok(Checked {
        types,
        overloads: checker.overloads,
        qualified: checker.qualified,
        uses_old_self: checker.uses_old_self,
        result,
    })
}

struct Checker<'a> {
    types: Vec<Type>,
    overloads: Vec<Vec<&'static str>>,
    qualified: BTreeMap<usize, String>,
    scopes: Vec<(String, Type)>,
    objects: &'a BTreeMap<&'a str, &'a Decl>,
    /// What each type variable was found to be.
    bindings: Vec<Option<Type>>,
    issues: Vec<Issue>,
    uses_old_self: bool,
}

impl Checker<'_> {
    fn issue(&mut self, at: usize, message: String) -> Type {
        self.issues.push(Issue { at, message });
        Type::Dyn
    }

    fn expr(&mut self, expr: &Expr) -> Type {
        let ty = match &expr.kind {
            Kind::Literal(literal) => match literal {
                Literal::Null => Type::Null,
                Literal::Bool(_) => Type::Bool,
                Literal::Int(_) => Type::Int,
                Literal::Uint(_) => Type::Uint,
                Literal::Double(_) => Type::Double,
                Literal::String(_) => Type::String,
                Literal::Bytes(_) => Type::Bytes,
            },
            Kind::Ident(name) => self.ident(expr.at, name),
            Kind::Select { operand, field, test } => self.select(expr, operand, field, *test),
            Kind::Call { target, function, args } => self.call(expr, target.as_deref(), function, args),
            Kind::List(items, optional) => self.list(items, optional),
            Kind::Map(entries) => {
                let (mut key, mut value) = (self.fresh(), self.fresh());
                for entry in entries {
                    let found = self.expr(&entry.key);
                    key = self.joined(&key, &found);
                    let found = self.expr(&entry.value);
                    let found = self.unwrapped(&found, entry.optional, entry.value.at);
                    value = self.joined(&value, &found);
                }
                Type::Map(Arc::new(key), Arc::new(value))
            }
            Kind::Fold(fold) => self.fold(fold),
        };
        self.types[expr.id] = ty.clone();
        ty
    }

    fn lookup(&self, name: &str) -> Option<Type> {
        self.scopes.iter().rev().find(|(variable, _)| variable == name).map(|(_, ty)| ty.clone())
    }

    fn ident(&mut self, at: usize, name: &str) -> Type {
        if let Some(ty) = self.lookup(name) {
            self.uses_old_self |= name == "oldSelf";
            return ty;
        }
        match type_name(name) {
            Some(ty) => Type::Meta(Arc::new(ty)),
            None => self.issue(at, format!("undeclared reference to '{name}' (in container '')")),
        }
    }

    fn list(&mut self, items: &[Expr], optional: &[bool]) -> Type {
        let mut item = self.fresh();
        for (expr, optional) in items.iter().zip(optional) {
            let found = self.expr(expr);
            let found = self.unwrapped(&found, *optional, expr.at);
            item = self.joined(&item, &found);
        }
        Type::List(Arc::new(item))
    }

    /// What stands behind a `?` is optional, and counts as what is in it.
    fn unwrapped(&mut self, found: &Type, optional: bool, at: usize) -> Type {
        if !optional {
            return found.clone();
        }
        match self.shallow(found) {
            Type::Optional(of) => (*of).clone(),
            Type::Dyn => Type::Dyn,
            other => {
                let other = self.settled(&other);
                self.issue(at, format!("expected type 'optional_type({other})' but found '{other}'"))
            }
        }
    }

    /// The type of elements, given those so far and one more. Mixed ones are dynamic; whether they may be mixed at all is
    /// not a question of types.
    fn joined(&mut self, so_far: &Type, found: &Type) -> Type {
        let before = self.bindings.clone();
        if self.unify(so_far, found) {
            return if matches!(self.shallow(so_far), Type::Dyn) { Type::Dyn } else { so_far.clone() };
        }
        self.bindings = before;
        Type::Dyn
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, test: bool) -> Type {
        let target = self.expr(operand);
        let (target, optional) = match self.shallow(&target) {
            Type::Optional(of) => (self.shallow(&of), true),
            other => (other, false),
        };
        let found = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(name) => match self.objects.get(&**name).and_then(|decl| decl.fields.get(field)) {
                Some(decl) => decl.ty.clone(),
                None => self.issue(expr.at, format!("undefined field '{field}'")),
            },
            Type::Dyn | Type::Param(_) => Type::Dyn,
            other => {
                let other = self.settled(other);
                self.issue(expr.at, format!("type '{other}' does not support field selection"))
            }
        };
        match (test, optional) {
            (true, _) => Type::Bool,
            (false, true) => Type::Optional(Arc::new(found)),
            (false, false) => found,
        }
    }

    fn fold(&mut self, fold: &Fold) -> Type {
        let range = self.expr(&fold.range);
        let (first, second) = match self.shallow(&range) {
            Type::List(item) if fold.var2.is_some() => (Type::Int, (*item).clone()),
            Type::List(item) => ((*item).clone(), Type::Dyn),
            Type::Map(key, value) => ((*key).clone(), (*value).clone()),
            Type::Dyn | Type::Param(_) => (Type::Dyn, Type::Dyn),
            other => {
                let other = self.settled(&other);
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.issue(fold.range.at, message);
                (Type::Dyn, Type::Dyn)
            }
        };
        let accu = self.expr(&fold.init);
        let depth = self.scopes.len();
        self.scopes.push((fold.accu.clone(), accu.clone()));
        self.scopes.push((fold.var.clone(), first));
        if let Some(var2) = &fold.var2 {
            self.scopes.push((var2.clone(), second));
        }
        let condition = self.expr(&fold.condition);
        self.require(&Type::Bool, &condition, fold.condition.at);
        let step = self.expr(&fold.step);
        self.require(&accu, &step, fold.step.at);
        self.scopes.truncate(depth + 1);
        let result = self.expr(&fold.result);
        self.scopes.truncate(depth);
        result
    }

    fn require(&mut self, wanted: &Type, found: &Type, at: usize) {
        if !self.unify(wanted, found) {
            let (wanted, found) = (self.settled(wanted), self.settled(found));
            self.issue(at, format!("expected type '{wanted}' but found '{found}'"));
        }
    }

    fn call(&mut self, expr: &Expr, target: Option<&Expr>, function: &str, args: &[Expr]) -> Type {
        if function == "_?._" {
            return self.optional_select(expr, args);
        }
        let Some(target) = target else {
            let types: Vec<Type> = args.iter().map(|arg| self.expr(arg)).collect();
            if overloads(function).is_empty() {
                return self.issue(expr.at, format!("undeclared reference to '{function}' (in container '')"));
            }
            return self.resolve(expr, function, None, types);
        };
        // `optional.of(x)` is a call of `optional.of`, unless there is a variable `optional`.
        if let Some(namespace) = dotted(target) {
            let root = namespace.split('.').next().unwrap_or_default();
            let whole = format!("{namespace}.{function}");
            if self.lookup(root).is_none() && !overloads(&whole).is_empty() {
                let types: Vec<Type> = args.iter().map(|arg| self.expr(arg)).collect();
                self.qualified.insert(expr.id, whole.clone());
                return self.resolve(expr, &whole, None, types);
            }
        }
        let of = self.expr(target);
        let types: Vec<Type> = args.iter().map(|arg| self.expr(arg)).collect();
        if !overloads(function).iter().any(|overload| overload.member) {
            return self.issue(expr.at, format!("undeclared reference to '{function}' (in container '')"));
        }
        self.resolve(expr, function, Some(of), types)
    }

    /// `a.?b`
    fn optional_select(&mut self, expr: &Expr, args: &[Expr]) -> Type {
        let [operand, field] = args else { return Type::Dyn };
        let Kind::Literal(Literal::String(name)) = &field.kind else { return Type::Dyn };
        self.types[field.id] = Type::String;
        self.overloads[expr.id] = vec!["select_optional_field"];
        let found = self.select(expr, operand, name, false);
        match found {
            found @ Type::Optional(_) => found,
            found => Type::Optional(Arc::new(found)),
        }
    }

    fn resolve(&mut self, expr: &Expr, function: &str, target: Option<Type>, args: Vec<Type>) -> Type {
        let member = target.is_some();
        let given: Vec<Type> = target.into_iter().chain(args).collect();
        let mut result: Option<Type> = None;
        let mut found = Vec::new();
        for overload in overloads(function) {
            if overload.member != member || overload.params.len() != given.len() {
                continue;
            }
            let (params, of) = self.instantiate(overload);
            let before = self.bindings.clone();
            if !params.iter().zip(&given).all(|(param, given)| self.unify(param, given)) {
                self.bindings = before;
                continue;
            }
            found.push(overload.id);
            let of = self.substituted(&of);
            result = Some(match result {
                None => of,
                Some(other) if other == of => other,
                Some(_) => Type::Dyn,
            });
        }
        self.overloads[expr.id] = found;
        result.unwrap_or_else(|| {
            let given: Vec<String> = given.iter().map(|ty| self.settled(ty).to_string()).collect();
            let shown = if member {
                format!("{}.({})", given[0], given[1..].join(", "))
            } else {
                format!("({})", given.join(", "))
            };
            self.issue(expr.at, format!("found no matching overload for '{function}' applied to '{shown}'"))
        })
    }

    fn fresh(&mut self) -> Type {
        self.bindings.push(None);
        Type::Param(self.bindings.len() - 1)
    }

    /// An overload with variables of its own.
    fn instantiate(&mut self, overload: &Overload) -> (Vec<Type>, Type) {
        let start = self.bindings.len();
        self.bindings.extend([None, None]);
        let params = overload.params.iter().map(|param| shift(param, start)).collect();
        (params, shift(&overload.result, start))
    }

    /// Follows a variable to what it stands for.
    fn shallow(&self, ty: &Type) -> Type {
        let mut ty = ty.clone();
        while let Type::Param(at) = ty {
            match self.bindings.get(at).and_then(Clone::clone) {
                Some(bound) => ty = bound,
                None => return ty,
            }
        }
        ty
    }

    /// With all variables replaced; those that were never found out are dynamic.
    fn settled(&self, ty: &Type) -> Type {
        match self.shallow(ty) {
            Type::Param(_) => Type::Dyn,
            Type::List(item) => Type::List(Arc::new(self.settled(&item))),
            Type::Map(key, value) => Type::Map(Arc::new(self.settled(&key)), Arc::new(self.settled(&value))),
            Type::Optional(of) => Type::Optional(Arc::new(self.settled(&of))),
            Type::Meta(of) => Type::Meta(Arc::new(self.settled(&of))),
            other => other,
        }
    }

    /// With the variables replaced that were found out so far.
    fn substituted(&self, ty: &Type) -> Type {
        match self.shallow(ty) {
            Type::List(item) => Type::List(Arc::new(self.substituted(&item))),
            Type::Map(key, value) => Type::Map(Arc::new(self.substituted(&key)), Arc::new(self.substituted(&value))),
            Type::Optional(of) => Type::Optional(Arc::new(self.substituted(&of))),
            Type::Meta(of) => Type::Meta(Arc::new(self.substituted(&of))),
            other => other,
        }
    }

    /// Makes two types one, if they can be.
    fn unify(&mut self, a: &Type, b: &Type) -> bool {
        let (a, b) = (self.shallow(a), self.shallow(b));
        match (&a, &b) {
            (Type::Param(x), Type::Param(y)) if x == y => true,
            (Type::Param(at), other) | (other, Type::Param(at)) => {
                if self.occurs(*at, other) {
                    return false;
                }
                self.bindings[*at] = Some(other.clone());
                true
            }
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (Type::List(a), Type::List(b))
            | (Type::Optional(a), Type::Optional(b))
            | (Type::Meta(a), Type::Meta(b)) => self.unify(a, b),
            (Type::Map(ak, av), Type::Map(bk, bv)) => self.unify(ak, bk) && self.unify(av, bv),
            // Null may stand where an object, a duration, a timestamp or a value of a library may.
            (Type::Null, Type::Object(_) | Type::Duration | Type::Timestamp | Type::Opaque(_) | Type::Optional(_))
            | (Type::Object(_) | Type::Duration | Type::Timestamp | Type::Opaque(_) | Type::Optional(_), Type::Null) => {
                true
            }
            (a, b) => a == b,
        }
    }

    fn occurs(&self, at: usize, ty: &Type) -> bool {
        match self.shallow(ty) {
            Type::Param(other) => other == at,
            Type::List(of) | Type::Optional(of) | Type::Meta(of) => self.occurs(at, &of),
            Type::Map(key, value) => self.occurs(at, &key) || self.occurs(at, &value),
            _ => false,
        }
    }
}

fn shift(ty: &Type, by: usize) -> Type {
    match ty {
        Type::Param(at) => Type::Param(at + by),
        Type::List(of) => Type::List(Arc::new(shift(of, by))),
        Type::Optional(of) => Type::Optional(Arc::new(shift(of, by))),
        Type::Meta(of) => Type::Meta(Arc::new(shift(of, by))),
        Type::Map(key, value) => Type::Map(Arc::new(shift(key, by)), Arc::new(shift(value, by))),
        other => other.clone(),
    }
}

/// `a.b.c` as a name, if that is all it is.
pub(crate) fn dotted(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Ident(name) => Some(name.clone()),
        Kind::Select { operand, field, test: false } => Some(format!("{}.{field}", dotted(operand)?)),
        _ => None,
    }
}

/// The types that can be named in expressions.
pub(crate) fn type_name(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        "list" => Type::List(Arc::new(Type::Dyn)),
        "map" => Type::Map(Arc::new(Type::Dyn), Arc::new(Type::Dyn)),
        "type" => Type::Meta(Arc::new(Type::Dyn)),
        "dyn" => Type::Dyn,
        _ => return None,
    })
}
