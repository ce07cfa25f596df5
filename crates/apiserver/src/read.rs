//! get, list and the start of a watch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use jiff::Timestamp;
use karpenter_kinds::fielderror::FieldError;
use karpenter_kinds::{selectable, selector};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::body::{Body, Next, Source};
use crate::error::ApiError;
use crate::planted::Planted;
use crate::registry::{Origin, Served};
use crate::render::{self, View};
use crate::request::{Query, Request};
use crate::server::Inner;
use crate::state::State;
use crate::store::{Filter, Object};
use crate::watch::Watch;

pub(crate) fn get(state: &State, served: &Served, namespace: &str, name: &str) -> Result<Arc<Object>, ApiError> {
    let table = served.table.ok_or_else(|| ApiError::method_not_allowed("get", &served.group, &served.plural))?;
    let found = state.store.get(table, &served.key(namespace, name));
    found.cloned().ok_or_else(|| ApiError::not_found(&served.group, &served.plural, name))
}

/// The selectors of a query.
pub(crate) fn filter(state: &State, served: &Served, query: &Query) -> Result<Filter, ApiError> {
    let labels = match query.get("labelSelector").filter(|_| !state.suffers(Planted::LabelSelectorsIgnored)) {
        Some(text) => selector::parse_labels(text).map_err(ApiError::bad_request)?,
        None => selector::Selector::default(),
    };
    let mut fields = match query.get("fieldSelector") {
        Some(text) => selector::parse_fields(text).map_err(ApiError::bad_request)?,
        None => Vec::new(),
    };
    let known = served.table.map(|table| &state.store.table(table).selectable);
    for term in &fields {
        let builtin = term.field == "metadata.name" || (term.field == "metadata.namespace" && served.namespaced);
        let builtin = builtin || (term.field == "metadata.namespace" && matches!(served.origin, Origin::Builtin(_)));
        if !builtin && !known.is_some_and(|known| known.names().any(|name| name == term.field)) {
            let message = match served.custom() {
                Some(_) => format!("field label not supported: {}", term.field),
                None => selectable::unsupported(&served.group, &served.kind, &term.field),
            };
            return Err(ApiError::bad_request(message));
        }
    }
    fields.retain(|term| !(term.value.is_empty() && term.equal && term.field.is_empty()));
    Ok(Filter { labels, fields })
}

/// The state a list shows.
pub(crate) struct Listing {
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) version: u64,
    pub(crate) next: Option<String>,
    pub(crate) remaining: Option<usize>,
}

struct Continue {
    version: u64,
    /// The last key that was sent.
    start: String,
}

pub(crate) fn list(
    state: &State,
    served: &Served,
    namespace: Option<&str>,
    query: &Query,
) -> Result<Listing, ApiError> {
    let table = served.table.ok_or_else(|| ApiError::method_not_allowed("list", &served.group, &served.plural))?;
    let table = state.store.table(table);
    validate_list(query)?;
    let filter = filter(state, served, query)?;
    let prefix = namespace.filter(|_| served.namespaced).map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let current = state.store.version();
    let asked = version_of(query)?;
    let exact = query.get("resourceVersionMatch") == Some("Exact");
    let mut limit = query.integer("limit")?.unwrap_or(0);
    if state.suffers(Planted::LimitsIgnored) {
        limit = 0;
    }
    let token = query.get("continue").map(|text| decode_continue(text, &prefix)).transpose()?;
    let token =
        token.map(|token| Continue { version: if token.version == 0 { current } else { token.version }, ..token });
    // From the watch cache the reference server answers whole.
    if asked == Some(0) && token.is_none() && !exact {
        limit = 0;
    }
    let version = match (&token, asked) {
        (Some(token), _) => token.version,
        (None, Some(asked)) if asked > current => return Err(too_large(asked, current)),
        (None, Some(asked)) if exact || (limit > 0 && asked > 0 && query.get("resourceVersionMatch").is_none()) => {
            asked
        }
        (None, _) => current,
    };
    let after = token.as_ref().map(|token| token.start.as_str());
    let limit = usize::try_from(limit).unwrap_or(0);
    let old;
    let candidates: Box<dyn Iterator<Item = &Arc<Object>>> = if version == current {
        Box::new(table.range(&prefix, after))
    } else {
        old = table.at(version).ok_or_else(|| expired(token.is_some()))?;
        let prefix = prefix.clone();
        let after = after.map(str::to_owned);
        let in_range = move |object: &&Arc<Object>| {
            object.key.starts_with(&prefix) && after.as_ref().is_none_or(|after| &*object.key > after.as_str())
        };
        Box::new(old.values().filter(in_range))
    };
    let mut matching = candidates.filter(|object| filter.is_everything() || object.matches(&filter));
    if limit == 0 {
        return Ok(Listing { objects: matching.cloned().collect(), version, next: None, remaining: None });
    }
    let objects: Vec<Arc<Object>> = matching.by_ref().take(limit).cloned().collect();
    let Some(_) = matching.next() else {
        return Ok(Listing { objects, version, next: None, remaining: None });
    };
    let remaining = filter.is_everything().then(|| 1 + matching.count());
    let last = objects.last().map(|object| object.key.to_string()).unwrap_or_default();
    Ok(Listing { objects, version, next: Some(encode_continue(version, &last, &prefix)), remaining })
}

fn version_of(query: &Query) -> Result<Option<u64>, ApiError> {
    let Some(text) = query.get("resourceVersion") else { return Ok(None) };
    let detail = || format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
    let error = |_| FieldError::invalid("resourceVersion", text, detail()).to_string();
    match text.parse().map_err(|error_: std::num::ParseIntError| error(error_)) {
        Ok(version) => Ok(Some(version)),
        // A watch answers as if something had broken.
        Err(message) if query.flag("watch") => Err(ApiError::new(500, "", message)),
        Err(message) => Err(ApiError::bad_request(format!("invalid resource version: {message}"))),
    }
}

fn list_options_invalid(errors: &[FieldError]) -> ApiError {
    ApiError::invalid("meta.k8s.io", "ListOptions", "", errors)
}

fn validate_list(query: &Query) -> Result<(), ApiError> {
    let version = query.get("resourceVersion");
    let forbidden = |detail: &str| FieldError::forbidden("resourceVersionMatch", detail);
    let mut errors = Vec::new();
    if query.get("sendInitialEvents").is_some() {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if let Some(matching) = query.get("resourceVersionMatch") {
        if version.is_none() {
            errors.push(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if query.get("continue").is_some() {
            errors.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
        }
        if matching != "Exact" && matching != "NotOlderThan" {
            let values = ["Exact", "NotOlderThan", ""];
            errors.push(FieldError::not_supported("resourceVersionMatch", matching, &values));
        }
        if matching == "Exact" && version == Some("0") {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(forbidden(detail));
        }
    }
    if !errors.is_empty() {
        return Err(list_options_invalid(&errors));
    }
    if query.get("continue").is_some() && version.is_some_and(|version| version != "0") {
        return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
    }
    Ok(())
}

fn validate_watch(query: &Query) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    let initial = query.get("sendInitialEvents").is_some();
    let matching = query.get("resourceVersionMatch");
    if initial && matching != Some("NotOlderThan") {
        errors.push(FieldError::forbidden(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if let Some(matching) = matching {
        if !initial {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if matching != "NotOlderThan" {
            errors.push(FieldError::not_supported("resourceVersionMatch", matching, &["NotOlderThan"]));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(list_options_invalid(&errors)) }
}

fn too_large(asked: u64, current: u64) -> ApiError {
    let mut error = ApiError::new(504, "Timeout", format!("Too large resource version: {asked}, current: {current}"));
    error.details =
        Some(json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1}));
    error
}

fn expired(continued: bool) -> ApiError {
    if !continued {
        return ApiError::expired("The resourceVersion for the provided list is too old.");
    }
    ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    )
}

fn encode_continue(version: u64, last: &str, prefix: &str) -> String {
    let start = last.strip_prefix(prefix).unwrap_or(last);
    let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": format!("{start}\u{0}")});
    URL_SAFE_NO_PAD.encode(token.to_string())
}

fn decode_continue(text: &str, prefix: &str) -> Result<Continue, ApiError> {
    let invalid =
        |why: &str| ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
    let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| invalid("illegal base64 data"))?;
    let token: Value = serde_json::from_slice(&bytes).map_err(|error| {
        let first = bytes.first().copied().unwrap_or_default();
        if first >= 0x80 {
            // Bytes are characters to the parser of the reference server.
            return invalid(&format!("invalid character '\\u{first:04x}' looking for beginning of value"));
        }
        invalid(&crate::go_json::syntax_error(&bytes, &error))
    })?;
    if token["v"] != "meta.k8s.io/v1" {
        return Err(invalid(&format!("server does not recognize this encoded version {}", token["v"])));
    }
    let start =
        token["start"].as_str().filter(|start| !start.is_empty()).ok_or_else(|| invalid("start key is empty"))?;
    let start = format!("{prefix}{}", start.trim_end_matches('\u{0}'));
    let version = token["rv"].as_i64().filter(|version| *version > 0).and_then(|version| u64::try_from(version).ok());
    Ok(Continue { version: version.unwrap_or(0), start })
}

/// The list as it goes over the wire.
pub(crate) fn render_list(served: &Arc<Served>, listing: Listing, view: View, now: Timestamp) -> Body {
    let mut metadata = json!({"resourceVersion": listing.version.to_string()});
    if let Some(next) = listing.next {
        metadata["continue"] = Value::from(next);
    }
    if let Some(remaining) = listing.remaining {
        metadata["remainingItemCount"] = Value::from(remaining);
    }
    match view {
        View::Whole => {
            let head = match served.origin {
                Origin::Builtin(_) => format!(
                    "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
                    served.list_kind,
                    served.api_version()
                ),
                Origin::Custom(_) => {
                    // Lists of custom resources always have a place for the token.
                    if metadata.get("continue").is_none() {
                        metadata["continue"] = Value::from("");
                    }
                    format!(
                        "{{\"apiVersion\":\"{}\",\"kind\":\"{}\",\"metadata\":{metadata},\"items\":[",
                        served.api_version(),
                        served.list_kind
                    )
                }
            };
            let mut pieces = ListPieces { served: served.clone(), objects: listing.objects, at: 0, head: Some(head) };
            let first = pieces.piece();
            if pieces.at == pieces.objects.len() {
                return Body::full(first.unwrap_or_default());
            }
            Body::stream(Box::new(Prefixed { first, rest: pieces }))
        }
        View::Table(include) => {
            let objects: Vec<&Object> = listing.objects.iter().map(AsRef::as_ref).collect();
            Body::full(render::bytes(&render::table(served, &objects, include, now, metadata, true)))
        }
        View::Metadata => {
            let items: Vec<Value> = listing.objects.iter().map(|object| render::partial(object)).collect();
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items});
            Body::full(render::bytes(&list))
        }
    }
}

/// A long list leaves in pieces, so that it is never in memory twice.
struct ListPieces {
    served: Arc<Served>,
    objects: Vec<Arc<Object>>,
    at: usize,
    head: Option<String>,
}

const PIECE: usize = 256 << 10;

impl ListPieces {
    fn piece(&mut self) -> Option<Bytes> {
        let head = self.head.take();
        if head.is_none() && self.at >= self.objects.len() {
            return None;
        }
        let mut out = head.map(String::into_bytes).unwrap_or_default();
        let prefix = render::type_prefix(&self.served);
        while self.at < self.objects.len() && out.len() < PIECE {
            if self.at > 0 {
                out.push(b',');
            }
            render::item(&self.served, &prefix, &self.objects[self.at], &mut out);
            self.at += 1;
        }
        if self.at == self.objects.len() {
            out.extend_from_slice(b"]}");
        }
        Some(out.into())
    }
}

struct Prefixed {
    first: Option<Bytes>,
    rest: ListPieces,
}

impl Source for Prefixed {
    fn next(mut self: Box<Self>) -> Next {
        Box::pin(async move {
            let piece = self.first.take().or_else(|| self.rest.piece())?;
            let source: Box<dyn Source> = self;
            Some((piece, source))
        })
    }
}

/// Starts a watch.
pub(crate) fn watch(
    inner: &Arc<Inner>,
    served: &Arc<Served>,
    namespace: Option<&str>,
    name: Option<&str>,
    request: &Request,
    view: View,
) -> Result<Body, ApiError> {
    let query = &request.query;
    validate_watch(query)?;
    let mut state = inner.state();
    let table_id = served.table.ok_or_else(|| ApiError::method_not_allowed("watch", &served.group, &served.plural))?;
    let mut filter = filter(&state, served, query)?;
    if let Some(name) = name {
        let field = selector::FieldTerm { field: "metadata.name".into(), value: name.to_owned(), equal: true };
        filter.fields.push(field);
    }
    let prefix = namespace.filter(|_| served.namespaced).map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let asked = version_of(query)?;
    let current = state.store.version();
    let initial = query.get("sendInitialEvents").is_some() && query.flag("sendInitialEvents");
    let suppressed = query.get("sendInitialEvents").is_some() && !initial;
    let bookmarks = query.flag("allowWatchBookmarks");
    if initial && asked.is_some_and(|asked| asked > current) {
        return Err(too_large(asked.unwrap_or_default(), current));
    }
    let synthetic = initial || (!suppressed && asked.unwrap_or(0) == 0);
    // Without a limit of the client's, half an hour to an hour, as the reference server has it.
    let seconds = match query.integer("timeoutSeconds")? {
        // A year is as good as for ever, and clocks can count it.
        Some(seconds) if seconds > 0 => u64::try_from(seconds).unwrap_or(1800).min(365 * 86_400),
        _ => 1800 + state.ids.next() % 1800,
    };
    let table = state.store.table(table_id);
    let mut watch = Watch {
        inner: inner.clone(),
        served: served.clone(),
        prefix,
        filter,
        view,
        version: if synthetic { current } else { asked.filter(|asked| *asked > 0).unwrap_or(current) },
        bookmarks,
        deadline: Instant::now() + Duration::from_secs(seconds),
        changed: table.subscribe(),
        orders: inner.watch_orders.subscribe(),
        next_bookmark: Watch::first_bookmark(),
        initial: VecDeque::new(),
        initial_bookmark: initial && bookmarks,
        pending: Vec::new(),
        columns_sent: false,
        ended: false,
    };
    if synthetic {
        watch.initial =
            table.range(&watch.prefix, None).filter(|object| object.matches(&watch.filter)).cloned().collect();
    }
    Ok(Body::stream(Box::new(watch)))
}
