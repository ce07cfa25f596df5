//! Which catalogue and region a command works on, and what a node class can launch from it.

pub(crate) mod refresh;
mod written;

use std::path::PathBuf;
use std::sync::Arc;

use karpenter_core::InstanceType;
use karpenter_ec2::catalogue::{builtin, folder};
use karpenter_ec2::nodeclass::json;
use karpenter_ec2::{Catalogue, Ec2Settings};
use karpenter_index::Fault;
use serde_json::Value;

use crate::bad_input::BadInput;

#[derive(Debug, clap::Args)]
pub(crate) struct CatalogueArgs {
    /// Folder with EC2 facts and prices [default: the built-in catalogue]
    #[arg(long, value_name = "DIR")]
    catalog: Option<PathBuf>,
    /// AWS region [default: AWS_REGION if set, else us-east-1]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
}

/// A catalogue and a region in which something can be bought.
pub(crate) struct Market {
    pub(crate) catalogue: Catalogue,
    pub(crate) region: String,
}

impl CatalogueArgs {
    pub(crate) fn open(&self, env: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Market> {
        let from_env = || env("AWS_REGION").filter(|region| !region.is_empty());
        let region = self.region.clone().or_else(from_env).unwrap_or_else(|| "us-east-1".to_owned());
        let catalogue = match &self.catalog {
            Some(dir) => folder::load_dir(dir).map_err(|error| BadInput(vec![with_sources(&error)]))?,
            None => builtin::catalogue().clone(),
        };
        catalogue.region(&region).map_err(|error| BadInput(vec![error.to_string()]))?;
        Ok(Market { catalogue, region })
    }
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = source.source();
    }
    text
}

impl Market {
    /// What a node class can launch, in the order of names.
    pub(crate) fn instance_types(
        &self,
        class: &Value,
        settings: &Ec2Settings,
    ) -> Result<Vec<InstanceType>, Vec<Fault>> {
        let faults = |faults: Vec<json::FieldFault>| -> Vec<Fault> {
            faults.into_iter().map(|fault| Fault { field: fault.field, message: fault.message }).collect()
        };
        let facts = json::facts(class).map_err(faults)?;
        karpenter_ec2::instance_types(&self.catalogue, &self.region, &facts, settings)
            .map_err(|error| vec![Fault { field: "status.subnets".to_owned(), message: error.to_string() }])
    }

    pub(crate) fn shared_types(
        &self,
        class: &Value,
        settings: &Ec2Settings,
    ) -> Result<Arc<[Arc<InstanceType>]>, Vec<Fault>> {
        Ok(self.instance_types(class, settings)?.into_iter().map(Arc::new).collect())
    }

    pub(crate) fn spot_is_assumed(&self) -> bool {
        self.catalogue.region(&self.region).is_ok_and(karpenter_ec2::catalogue::RegionFacts::spot_is_assumed)
    }
}
