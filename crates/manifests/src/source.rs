//! Files, folders and standard input.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The text of one file.
#[derive(Clone, Debug)]
pub struct Source {
    /// As the user named it; `-` for standard input.
    pub name: Arc<str>,
    pub bytes: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
#[error("{path}: {error}")]
pub struct SourceError {
    pub path: String,
    #[source]
    pub error: io::Error,
}

const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Reads what the paths name: a file whatever its extension, a folder's manifests recursively in name order, `-` for
/// `stdin`. Every path that cannot be read is reported.
pub fn read_sources(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Vec<Source>, Vec<SourceError>> {
    let mut sources = Vec::new();
    let mut errors = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let mut bytes = Vec::new();
            match stdin.read_to_end(&mut bytes) {
                Ok(_) => sources.push(Source { name: "-".into(), bytes }),
                Err(error) => errors.push(SourceError { path: "-".to_owned(), error }),
            }
            continue;
        }
        let mut files = Vec::new();
        if let Err(error) = collect(path, &mut files) {
            errors.push(error);
        }
        for file in files {
            match fs::read(&file) {
                Ok(bytes) => sources.push(Source { name: file.display().to_string().into(), bytes }),
                Err(error) => errors.push(SourceError { path: file.display().to_string(), error }),
            }
        }
    }
    if errors.is_empty() { Ok(sources) } else { Err(errors) }
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), SourceError> {
    let failed = |error| SourceError { path: path.display().to_string(), error };
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries: io::Result<Vec<_>> = fs::read_dir(path).map_err(failed)?.collect();
    let mut entries: Vec<PathBuf> = entries.map_err(failed)?.into_iter().map(|entry| entry.path()).collect();
    entries.sort();
    for entry in entries {
        let manifest = |name: &Path| name.extension().is_some_and(|e| EXTENSIONS.iter().any(|known| e == *known));
        if entry.is_dir() || manifest(&entry) {
            collect(&entry, files)?;
        }
    }
    Ok(())
}
