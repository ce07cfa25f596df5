//! What every one of our kinds needs to be a Kubernetes object: `apiVersion` and `kind` on the wire, and the
//! `k8s_openapi` traits from which kube derives everything else. Written by hand instead of `kube::CustomResource`,
//! because this crate must not know kube: the planner uses it without a cluster.

use serde_json::Value;

use crate::defaulting::apply_defaults;
use crate::kind::Kind;
use crate::validation::{Fault, unknown_fields, validate};

/// Defines the object struct around its spec and status.
///
/// `apiVersion` and `kind` may be absent when reading (the items of a list often lack them); when present they must be
/// ours, so that a `NodeClaim` is never mistaken for a `NodePool`.
macro_rules! kubernetes_object {
    (
        $(#[$doc:meta])*
        $name:ident, $group:literal, $version:literal, $plural:literal, $scope:ident,
        $(#[$spec_attribute:meta])* spec: $spec:ty, status: $status:ty
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            pub spec: $spec,
            pub status: Option<$status>,
        }

        impl k8s_openapi::Resource for $name {
            const API_VERSION: &'static str = concat!($group, "/", $version);
            const GROUP: &'static str = $group;
            const KIND: &'static str = stringify!($name);
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::$scope;
        }

        impl k8s_openapi::ListableResource for $name {
            const LIST_KIND: &'static str = concat!(stringify!($name), "List");
        }

        impl k8s_openapi::Metadata for $name {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        impl crate::object::Object for $name {
            const KIND_OF_OBJECT: crate::kind::Kind = crate::kind::Kind::$name;
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let fields = 4 + usize::from(self.status.is_some());
                let mut out = serializer.serialize_struct(stringify!($name), fields)?;
                out.serialize_field("apiVersion", <Self as k8s_openapi::Resource>::API_VERSION)?;
                out.serialize_field("kind", <Self as k8s_openapi::Resource>::KIND)?;
                out.serialize_field("metadata", &self.metadata)?;
                out.serialize_field("spec", &self.spec)?;
                match &self.status {
                    Some(status) => out.serialize_field("status", status)?,
                    None => out.skip_field("status")?,
                }
                out.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire {
                    api_version: Option<String>,
                    kind: Option<String>,
                    #[serde(default)]
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
                    $(#[$spec_attribute])*
                    spec: $spec,
                    status: Option<$status>,
                }
                let wire = Wire::deserialize(deserializer)?;
                crate::object::must_be("apiVersion", wire.api_version, <Self as k8s_openapi::Resource>::API_VERSION)?;
                crate::object::must_be("kind", wire.kind, <Self as k8s_openapi::Resource>::KIND)?;
                Ok(Self { metadata: wire.metadata, spec: wire.spec, status: wire.status })
            }
        }
    };
}
pub(crate) use kubernetes_object;

pub(crate) fn must_be<E: serde::de::Error>(field: &str, given: Option<String>, ours: &str) -> Result<(), E> {
    match given {
        Some(text) if text != ours => Err(E::custom(format!("{field} is {text:?}, expected {ours:?}"))),
        _ => Ok(()),
    }
}

/// One of our kinds in its type.
pub trait Object:
    k8s_openapi::Metadata<Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>
    + serde::Serialize
    + serde::de::DeserializeOwned
{
    const KIND_OF_OBJECT: Kind;

    fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("our types are plain data with string keys")
    }
}

/// Reads an object the way `kubectl apply` would have it read: defaults filled in, then refused if anything is wrong
/// with it, unknown fields included. Every fault is reported, each with its field.
pub fn parse<T: Object>(mut object: Value) -> Result<T, Vec<Fault>> {
    let kind = T::KIND_OF_OBJECT;
    let unknown = unknown_fields(kind, &object);
    apply_defaults(kind, &mut object);
    let mut faults: Vec<Fault> =
        unknown.into_iter().map(|field| Fault { field, message: "unknown field".to_owned() }).collect();
    faults.extend(validate(kind, &object));
    match serde_json::from_value(object) {
        Ok(object) if faults.is_empty() => Ok(object),
        Ok(_) => Err(faults),
        Err(error) => {
            // What the schema already complained about need not be said again in the words of a parser.
            if faults.is_empty() {
                faults.push(Fault { field: String::new(), message: error.to_string() });
            }
            Err(faults)
        }
    }
}
