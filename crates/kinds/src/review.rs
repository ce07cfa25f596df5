//! A new object as a server sees it that is asked to create it, with everything that is wrong with it.
//!
//! A server stops at what it cannot decode; here validation goes on with what is left, so that one look finds it all.

use serde_json::{Value, json};

use crate::fielderror::{ErrorKind, FieldError};
use crate::misfit::{self, Misfit, Problem};
use crate::resources::{self, Resource};
use crate::types::{StructId, Types};
use crate::{decode, defaults, strategy, validate};

/// What a server would refuse an object for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Review {
    pub misfits: Vec<Misfit>,
    pub errors: Vec<FieldError>,
    /// The object without its misfits, if it has any.
    pub fitting: Option<Value>,
}

impl Review {
    pub fn is_clean(&self) -> bool {
        self.misfits.is_empty() && self.errors.is_empty()
    }
}

/// A kind that is served, and its type.
#[derive(Clone, Copy, Debug)]
pub struct ServedKind {
    pub resource: &'static Resource,
    pub id: StructId,
}

/// The built-in kind that objects of it are created as.
pub fn served_kind(api_version: &str, kind: &str) -> Option<ServedKind> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let creates = |resource: &&Resource| {
        resource.kind == kind
            && (resource.group, resource.version) == (group, version)
            && resource.subresource.is_empty()
            && resource.verbs.contains(&"create")
    };
    let resource = resources::all().iter().find(creates)?;
    Some(ServedKind { resource, id: Types::get().kind(api_version, kind)? })
}

/// Reviews an object that is about to be created. A status is written by controllers, maybe newer ones: what is unknown
/// in it is passed over.
pub fn create(served: ServedKind, object: &Value) -> Review {
    let ServedKind { resource, id } = served;
    let mut working = object.clone();
    let mut misfits = misfit::take_out(id, &mut working);
    let fitting = (!misfits.is_empty()).then(|| working.clone());
    misfits.retain(|misfit| !misfit.field.starts_with("status.") || !matches!(misfit.problem, Problem::Unknown { .. }));
    let errors = errors(resource, id, working);
    let errors = unless_misfit(errors, &misfits);
    Review { misfits, errors, fitting }
}

/// Reviews the metadata of a custom resource.
pub fn metadata(api_version: &str, namespaced: bool, metadata: &Value) -> Review {
    let mut working = metadata.clone();
    let mut misfits = misfit::take_out(object_meta(), &mut working);
    for misfit in &mut misfits {
        misfit.field = match misfit.field.as_str() {
            "" => "metadata".to_owned(),
            key if key.starts_with('[') => format!("metadata{key}"),
            field => format!("metadata.{field}"),
        };
    }
    let fitting = (!misfits.is_empty()).then(|| working.clone());
    let mut whole = json!({"apiVersion": api_version});
    whole["metadata"] = working;
    fill_name(&mut whole);
    let errors = validate::metadata(namespaced, validate::NameRule::Subdomain, &whole);
    let errors = unless_misfit(unique(errors), &misfits);
    Review { misfits, errors, fitting }
}

/// Whether there is nothing to say of the metadata of a built-in object, without a word about what there is.
pub fn has_good_metadata(served: ServedKind, object: &Value) -> bool {
    let rule = validate::name_rule(served.resource.kind);
    object.get("metadata").is_some_and(|metadata| misfit::fits(object_meta(), metadata))
        && validate::metadata(served.resource.namespaced, rule, object).is_empty()
}

fn object_meta() -> StructId {
    Types::get()
        .named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
        .expect("every object has metadata, so the table has its type")
}

fn errors(resource: &Resource, id: StructId, object: Value) -> Vec<FieldError> {
    let mut object = match decode::decode(id, object) {
        Ok(decoded) => decoded.value,
        Err(error) => return vec![FieldError::worded(ErrorKind::Invalid, "", error)],
    };
    defaults::apply(resource.group, resource.version, resource.kind, &mut object);
    decode::settle(id, &mut object);
    // Only whether there is a status subresource matters here, and every kind whose status is reset has one.
    strategy::prepare_create(resource.kind, &mut object, false, "");
    fill_name(&mut object);
    unique(validate::create(resource.group, resource.kind, resource.namespaced, &object))
}

/// The server makes a name of `generateName` before it looks.
fn fill_name(object: &mut Value) {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    if text("name").is_empty() && !text("generateName").is_empty() {
        let name = format!("{}00000", text("generateName"));
        object["metadata"]["name"] = Value::from(name);
    }
}

/// Some checks look twice, as the server's do; it tells each finding once.
fn unique(errors: Vec<FieldError>) -> Vec<FieldError> {
    let mut once: Vec<FieldError> = Vec::with_capacity(errors.len());
    for error in errors {
        if !once.contains(&error) {
            once.push(error);
        }
    }
    once
}

/// What is missing because it was taken out, or stands under another name, is no fault of its own.
fn unless_misfit(errors: Vec<FieldError>, misfits: &[Misfit]) -> Vec<FieldError> {
    let is_under = |field: &str, other: &str| {
        field.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let explained = |error: &FieldError| {
        // What is not there is either required or counts as zero.
        let misses = error.kind == ErrorKind::Required || error.value.as_deref() == Some("0");
        misfits.iter().any(|misfit| match &misfit.problem {
            Problem::Wrong(_) => is_under(&error.field, &misfit.field),
            Problem::Unknown { meant: Some(meant) } => {
                let parent = misfit.field.rfind('.').map_or("", |dot| &misfit.field[..=dot]);
                misses && is_under(&error.field, &format!("{parent}{meant}"))
            }
            Problem::Unknown { meant: None } => false,
        })
    };
    errors.into_iter().filter(|error| !explained(error)).collect()
}

#[cfg(test)]
mod tests;
