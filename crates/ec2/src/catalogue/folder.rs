//! The one place of this crate that touches a disk: a catalogue from the files of a folder.

use std::path::{Path, PathBuf};

use super::Catalogue;
use super::text::{self, CatalogueText, FileError};

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{}/{fault}", folder.display())]
    Content { folder: PathBuf, fault: Box<FileError> },
}

/// Reads and parses the folder's files. Those for spot prices and for China may be missing.
pub fn load_dir(folder: &Path) -> Result<Catalogue, FolderError> {
    let needed = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).map_err(|source| FolderError::Read { path, source })
    };
    let optional = |name: &str| match needed(name) {
        Err(FolderError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    };
    let types = needed(text::INSTANCE_TYPES)?;
    let on_demand = needed(text::ON_DEMAND_PRICES)?;
    let on_demand_cn = optional(text::ON_DEMAND_PRICES_CN)?;
    let offerings = needed(text::OFFERINGS)?;
    let zones = needed(text::ZONES)?;
    let spot = optional(text::SPOT_PRICES)?;
    text::parse(&CatalogueText {
        origin: &folder.display().to_string(),
        instance_types: &types,
        on_demand_prices: &on_demand,
        on_demand_prices_cn: on_demand_cn.as_deref(),
        offerings: &offerings,
        zones: &zones,
        spot_prices: spot.as_deref(),
    })
    .map_err(|fault| FolderError::Content { folder: folder.to_owned(), fault: Box::new(fault) })
}
