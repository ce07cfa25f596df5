//! Macros: calls that are written like functions and mean a comprehension.

use super::super::ast::{ACCU, Entry, Expr, Issue, Kind, Literal};
use super::{Parsed, Parser};

impl Parser {
    pub(super) fn global_call(&mut self, at: usize, name: String, mut args: Vec<Expr>) -> Parsed {
        let plain = name.strip_prefix('.').unwrap_or(&name).to_owned();
        if name == "has" && args.len() == 1 {
            let arg = args.pop().expect("there is one");
            return match arg.kind {
                Kind::Select { operand, field, test: false } => {
                    Ok(Expr { at, kind: Kind::Select { operand, field, test: true }, ..arg })
                }
                _ => Err(Issue { at: arg.at, message: "invalid argument to has() macro".to_owned() }),
            };
        }
        Ok(self.call(at, &plain, args))
    }

    pub(super) fn member_call(&mut self, at: usize, target: Expr, name: String, args: Vec<Expr>) -> Parsed {
        let lists = matches!(&target.kind, Kind::Ident(name) if name == "cel");
        match (name.as_str(), args.len()) {
            ("all", 2) => self.quantifier(at, target, args, Quantifier::All),
            ("exists", 2) => self.quantifier(at, target, args, Quantifier::Exists),
            ("exists_one" | "existsOne", 2) => self.exists_one(at, target, args),
            ("map", 2 | 3) => self.map(at, target, args),
            ("filter", 2) => self.filter(at, target, args),
            ("all", 3) => self.quantifier(at, target, args, Quantifier::All),
            ("exists", 3) => self.quantifier(at, target, args, Quantifier::Exists),
            ("existsOne" | "exists_one", 3) => self.exists_one(at, target, args),
            ("transformList", 3 | 4) => self.transform(at, target, args, Transform::List),
            ("transformMap", 3 | 4) => self.transform(at, target, args, Transform::Map),
            ("transformMapEntry", 3 | 4) => self.transform(at, target, args, Transform::Entry),
            ("optMap", 2) => self.opt_map(at, target, args, true),
            ("optFlatMap", 2) => self.opt_map(at, target, args, false),
            ("sortBy", 2) if !lists => self.sort_by(at, target, args),
            _ => Ok(self.node(at, Kind::Call { target: Some(Box::new(target)), function: name, args })),
        }
    }

    fn ident_node(&mut self, at: usize, name: &str) -> Expr {
        self.node(at, Kind::Ident(name.to_owned()))
    }

    fn literal(&mut self, at: usize, literal: Literal) -> Expr {
        self.node(at, Kind::Literal(literal))
    }

    /// The variables a macro introduces: all arguments but the last ones.
    fn variables(args: &[Expr], count: usize) -> Result<(String, Option<String>), Issue> {
        let name = |expr: &Expr| match &expr.kind {
            Kind::Ident(name) if name != ACCU => Ok(name.clone()),
            _ => {
                let message =
                    if count == 2 { "argument must be a simple name" } else { "argument is not an identifier" };
                Err(Issue { at: expr.at, message: message.to_owned() })
            }
        };
        let first = name(&args[0])?;
        let second = if count == 2 { Some(name(&args[1])?) } else { None };
        if second.as_ref() == Some(&first) {
            let message = format!("duplicate variable name: {first}");
            return Err(Issue { at: args[1].at, message });
        }
        Ok((first, second))
    }

    fn quantifier(&mut self, at: usize, range: Expr, mut args: Vec<Expr>, quantifier: Quantifier) -> Parsed {
        let vars = Self::variables(&args, args.len() - 1)?;
        let test = args.pop().expect("there are two");
        let all = quantifier == Quantifier::All;
        let init = self.literal(at, Literal::Bool(all));
        let accu = self.ident_node(at, ACCU);
        let going = if all { accu } else { self.call(at, "!_", vec![accu]) };
        let condition = self.call(at, "@not_strictly_false", vec![going]);
        let accu = self.ident_node(at, ACCU);
        let step = self.call(at, if all { "_&&_" } else { "_||_" }, vec![accu, test]);
        let result = self.ident_node(at, ACCU);
        Ok(self.fold(at, range, vars, ACCU, init, condition, step, result))
    }

    fn exists_one(&mut self, at: usize, range: Expr, mut args: Vec<Expr>) -> Parsed {
        let vars = Self::variables(&args, args.len() - 1)?;
        let test = args.pop().expect("there are two");
        let init = self.literal(at, Literal::Int(0));
        let condition = self.literal(at, Literal::Bool(true));
        let accu = self.ident_node(at, ACCU);
        let one = self.literal(at, Literal::Int(1));
        let more = self.call(at, "_+_", vec![accu, one]);
        let same = self.ident_node(at, ACCU);
        let step = self.call(at, "_?_:_", vec![test, more, same]);
        let accu = self.ident_node(at, ACCU);
        let one = self.literal(at, Literal::Int(1));
        let result = self.call(at, "_==_", vec![accu, one]);
        Ok(self.fold(at, range, vars, ACCU, init, condition, step, result))
    }

    /// `accu + [item]`, if the test says so.
    fn gather(
        &mut self,
        at: usize,
        range: Expr,
        vars: (String, Option<String>),
        test: Option<Expr>,
        item: Expr,
    ) -> Expr {
        let init = self.node(at, Kind::List(Vec::new(), Vec::new()));
        let condition = self.literal(at, Literal::Bool(true));
        let accu = self.ident_node(at, ACCU);
        let item = self.node(at, Kind::List(vec![item], vec![false]));
        let mut step = self.call(at, "_+_", vec![accu, item]);
        if let Some(test) = test {
            let same = self.ident_node(at, ACCU);
            step = self.call(at, "_?_:_", vec![test, step, same]);
        }
        let result = self.ident_node(at, ACCU);
        self.fold(at, range, vars, ACCU, init, condition, step, result)
    }

    fn map(&mut self, at: usize, range: Expr, mut args: Vec<Expr>) -> Parsed {
        let vars = Self::variables(&args, 1)?;
        let item = args.pop().expect("there are two");
        let test = if args.len() == 2 { args.pop() } else { None };
        Ok(self.gather(at, range, vars, test, item))
    }

    fn filter(&mut self, at: usize, range: Expr, mut args: Vec<Expr>) -> Parsed {
        let vars = Self::variables(&args, 1)?;
        let test = args.pop();
        let item = self.ident_node(at, &vars.0);
        Ok(self.gather(at, range, vars, test, item))
    }

    fn transform(&mut self, at: usize, range: Expr, mut args: Vec<Expr>, into: Transform) -> Parsed {
        let vars = Self::variables(&args, 2)?;
        let item = args.pop().expect("there are three");
        let test = if args.len() == 3 { args.pop() } else { None };
        if into == Transform::List {
            return Ok(self.gather(at, range, vars, test, item));
        }
        let init = self.node(at, Kind::Map(Vec::<Entry>::new()));
        let condition = self.literal(at, Literal::Bool(true));
        let accu = self.ident_node(at, ACCU);
        let mut step = if into == Transform::Map {
            let key = self.ident_node(at, &vars.0);
            self.call(at, "cel.@mapInsert", vec![accu, key, item])
        } else {
            self.call(at, "cel.@mapInsert", vec![accu, item])
        };
        if let Some(test) = test {
            let same = self.ident_node(at, ACCU);
            step = self.call(at, "_?_:_", vec![test, step, same]);
        }
        let result = self.ident_node(at, ACCU);
        Ok(self.fold(at, range, vars, ACCU, init, condition, step, result))
    }

    /// `x.hasValue() ? optional.of(let v = x.value() in expr) : optional.none()`
    fn opt_map(&mut self, at: usize, target: Expr, mut args: Vec<Expr>, wrap: bool) -> Parsed {
        let (var, _) = Self::variables(&args, 1)?;
        let body = args.pop().expect("there are two");
        let mut other = target.clone();
        self.renumber(&mut other);
        let call = |parser: &mut Self, target: Expr, function: &str| {
            parser.node(
                at,
                Kind::Call { target: Some(Box::new(target)), function: function.to_owned(), args: Vec::new() },
            )
        };
        let there = call(self, target, "hasValue");
        let init = call(self, other, "value");
        let range = self.node(at, Kind::List(Vec::new(), Vec::new()));
        let condition = self.literal(at, Literal::Bool(false));
        let step = self.ident_node(at, &var);
        let mut bound = self.fold(at, range, ("#unused".to_owned(), None), &var, init, condition, step, body);
        if wrap {
            bound = self.call(at, "optional.of", vec![bound]);
        }
        let none = self.call(at, "optional.none", Vec::new());
        Ok(self.call(at, "_?_:_", vec![there, bound, none]))
    }

    /// `let @sorted = list in @sorted.@sortByAssociatedKeys(@sorted.map(v, key))`
    fn sort_by(&mut self, at: usize, target: Expr, args: Vec<Expr>) -> Parsed {
        const BOUND: &str = "@__sortBy_input__";
        let mapped = self.ident_node(at, BOUND);
        let keys = self.map(at, mapped, args)?;
        let list = self.ident_node(at, BOUND);
        let function = "@sortByAssociatedKeys".to_owned();
        let sorted = self.node(at, Kind::Call { target: Some(Box::new(list)), function, args: vec![keys] });
        let range = self.node(at, Kind::List(Vec::new(), Vec::new()));
        let condition = self.literal(at, Literal::Bool(false));
        let step = self.ident_node(at, BOUND);
        Ok(self.fold(at, range, ("#unused".to_owned(), None), BOUND, target, condition, step, sorted))
    }

    /// New ids for a copy, so that every node has its own.
    fn renumber(&mut self, expr: &mut Expr) {
        expr.id = self.next_id;
        self.next_id += 1;
        match &mut expr.kind {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } => self.renumber(operand),
            Kind::Call { target, args, .. } => {
                if let Some(target) = target {
                    self.renumber(target);
                }
                args.iter_mut().for_each(|arg| self.renumber(arg));
            }
            Kind::List(items, _) => items.iter_mut().for_each(|item| self.renumber(item)),
            Kind::Map(entries) => {
                for entry in entries {
                    self.renumber(&mut entry.key);
                    self.renumber(&mut entry.value);
                }
            }
            Kind::Fold(fold) => {
                for part in [&mut fold.range, &mut fold.init, &mut fold.condition, &mut fold.step, &mut fold.result] {
                    self.renumber(part);
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantifier {
    All,
    Exists,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Transform {
    List,
    Map,
    Entry,
}
