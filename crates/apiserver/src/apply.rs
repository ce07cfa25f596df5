//! Server-side apply.

use karpenter_kinds::fielderror::FieldError;
use karpenter_kinds::strategy::Part;
use karpenter_structural::apply::ApplyError;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::history::Verb;
use crate::input;
use crate::managed::{self, Author};
use crate::planted::Planted;
use crate::request::Request;
use crate::state::State;
use crate::write::{self, Current, Place, WriteOptions, Written};

/// The applied object, and 201 where it is new.
pub(crate) fn apply(
    state: &mut State,
    request: &Request,
    place: &Place,
    part: Part,
    options: &mut WriteOptions,
) -> Result<(Written, u16), ApiError> {
    let served = &place.served;
    let Some(manager) = request.query.get("fieldManager") else {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
    };
    let force = request.query.flag("force") || state.suffers(Planted::ApplyConflictsIgnored);
    let (config, strict) = parse(request)?;
    check_config(place, &config)?;
    write::report_strict(served, strict, options)?;
    let table = served.table.ok_or_else(|| ApiError::method_not_allowed("patch", &served.group, &served.plural))?;
    let current = state.store.get(table, &served.key(&place.namespace, &place.name)).cloned();
    let now = state.now_text();
    let author = Author { manager, part, subresource: write::subresource_name(part), now: &now };
    let current = current.map(|current| Current::read(served, current));
    let live = current.as_ref().map(|current| &current.value);
    if live.is_none() && part != Part::Main {
        return Err(ApiError::not_found(&served.group, &served.plural, &place.name));
    }
    let applied = managed::apply_config(served, live, &config, &author, force).map_err(refusal)?;
    let mut silent = WriteOptions { validation: write::FieldValidation::Ignore, ..options.clone() };
    let object = write::decode_object(served, applied, &mut silent, Vec::new())?;
    match current {
        None => {
            if !config["metadata"]["uid"].is_null() {
                return Err(ApiError::conflict(
                    &served.group,
                    &served.plural,
                    &place.name,
                    &format!(
                        "uid mismatch: the provided object specified uid {}, and no existing object was found",
                        config["metadata"]["uid"].as_str().unwrap_or_default()
                    ),
                ));
            }
            Ok((write::create_managed(state, place, object, options, Verb::Apply)?, 201))
        }
        Some(current) => {
            let written = write::replace_managed(state, place, part, &current, object, options, Verb::Apply)?;
            Ok((written, 200))
        }
    }
}

fn parse(request: &Request) -> Result<(Value, Vec<String>), ApiError> {
    // YAML contains JSON; where it is JSON, repeated keys are found as in any other body.
    if request.body.first() == Some(&b'{')
        && let Ok((value, strict)) = input::json(&request.body)
    {
        return Ok((value, strict));
    }
    input::yaml(&request.body).map_err(|error| {
        ApiError::bad_request(format!("error decoding YAML: error converting YAML to JSON: {}", error.message))
    })
}

fn check_config(place: &Place, config: &Value) -> Result<(), ApiError> {
    if !config.is_object() {
        return Err(ApiError::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            crate::go_json::describe(config)
        )));
    }
    let name = config["metadata"]["name"].as_str().unwrap_or_default();
    if !name.is_empty() && name != place.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            place.name
        )));
    }
    Ok(())
}

fn refusal(error: ApplyError) -> ApiError {
    match error {
        ApplyError::BadRequest(message) => ApiError::bad_request(core_group(&message)),
        ApplyError::Conflict { message, causes } => {
            let causes: Vec<Value> = causes
                .iter()
                .map(|cause| json!({"reason": "FieldManagerConflict", "message": cause.message, "field": cause.field}))
                .collect();
            let mut error = ApiError::new(409, "Conflict", message);
            error.details = Some(json!({"causes": causes}));
            error
        }
        ApplyError::Unexpected(message) => ApiError::new(500, "", core_group(&message)),
    }
}

/// The core group has no name, and its kinds print as `/v1, Kind=Pod`.
fn core_group(message: &str) -> String {
    message.replacen("; v1, Kind=", "; /v1, Kind=", 1).replacen(
        "invalid object type: v1, Kind=",
        "invalid object type: /v1, Kind=",
        1,
    )
}
