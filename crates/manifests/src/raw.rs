//! Objects as they were written, for commands that look at one kind only.

use karpenter_index::Fault;
use serde_json::{Map, Value};

use crate::InputFault;
use crate::document::{Place, Sink, each_object};
use crate::source::Source;

/// An object and where it stands.
#[derive(Clone, Debug)]
pub struct RawObject {
    pub place: Place,
    /// `Kind name`, for messages.
    pub title: String,
    pub object: Value,
}

impl RawObject {
    /// One that nobody wrote.
    pub fn unplaced(object: Value) -> Self {
        let place = Place { file: "(none)".into(), document: 1, item: None };
        Self { place, title: title(&object), object }
    }

    pub fn fault(&self, fault: Fault) -> InputFault {
        InputFault { place: self.place.clone(), object: self.title.clone(), field: fault.field, message: fault.message }
    }
}

fn title(object: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("").to_owned();
    let name = text(object.get("metadata").and_then(|metadata| metadata.get("name")));
    format!("{} {name}", text(object.get("kind"))).trim().to_owned()
}

#[derive(Default)]
struct Collect {
    objects: Vec<RawObject>,
    faults: Vec<InputFault>,
}

impl Sink for Collect {
    fn object(&mut self, place: Place, object: Map<String, Value>) {
        let object = Value::Object(object);
        self.objects.push(RawObject { place, title: title(&object), object });
    }

    fn fault(&mut self, place: Place, message: String) {
        self.faults.push(InputFault { place, object: String::new(), field: String::new(), message });
    }
}

/// Every object of the sources, or every place that cannot be read.
pub fn raw_objects(sources: &[Source]) -> Result<Vec<RawObject>, Vec<InputFault>> {
    let mut collect = Collect::default();
    for source in sources {
        each_object(source, &mut collect);
    }
    if collect.faults.is_empty() { Ok(collect.objects) } else { Err(collect.faults) }
}
