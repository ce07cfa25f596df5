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

/// What was read, and what the user should know about it.
#[derive(Clone, Debug, Default)]
pub struct Input {
    pub sources: Vec<Source>,
    /// A line for each folder in which files were skipped.
    pub notes: Vec<String>,
}

/// Reads what the paths name: a file whatever its extension, a folder's manifests recursively in name order, `-` for
/// `stdin`. Every path that cannot be read is reported, and every folder without manifests.
pub fn read_input(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Input, Vec<SourceError>> {
    let Input { mut sources, mut notes } = Input::default();
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
        let mut found = Found::default();
        match collect(path, &mut found) {
            Err(error) => errors.push(error),
            Ok(()) if found.files.is_empty() => {
                errors.push(SourceError { path: path.display().to_string(), error: io::Error::other(found.nothing()) });
            }
            Ok(()) if found.skipped > 0 => notes.push(format!("{}: {}", path.display(), found.skipped())),
            Ok(()) => {}
        }
        for file in found.files {
            match fs::read(&file) {
                Ok(bytes) => sources.push(Source { name: file.display().to_string().into(), bytes }),
                Err(error) => errors.push(SourceError { path: file.display().to_string(), error }),
            }
        }
    }
    if errors.is_empty() { Ok(Input { sources, notes }) } else { Err(errors) }
}

/// [`read_input`] for commands that say nothing about skipped files.
pub fn read_sources(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Vec<Source>, Vec<SourceError>> {
    read_input(paths, stdin).map(|input| input.sources)
}

#[derive(Default)]
struct Found {
    files: Vec<PathBuf>,
    /// Files that no manifest is called like.
    skipped: usize,
}

impl Found {
    fn skipped(&self) -> String {
        let files = if self.skipped == 1 { "file that is" } else { "files that are" };
        format!("skipped {} {files} not called .yaml, .yml or .json", self.skipped)
    }

    fn nothing(&self) -> String {
        match self.skipped {
            0 => "there are no manifests in this folder".to_owned(),
            _ => format!("there are no manifests in this folder: {}", self.skipped()),
        }
    }
}

fn collect(path: &Path, found: &mut Found) -> Result<(), SourceError> {
    let failed = |error| SourceError { path: path.display().to_string(), error };
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        found.files.push(path.to_owned());
        return Ok(());
    }
    let entries: io::Result<Vec<_>> = fs::read_dir(path).map_err(failed)?.collect();
    let mut entries: Vec<PathBuf> = entries.map_err(failed)?.into_iter().map(|entry| entry.path()).collect();
    entries.sort();
    for entry in entries {
        let manifest = |name: &Path| name.extension().is_some_and(|e| EXTENSIONS.iter().any(|known| e == *known));
        if entry.is_dir() || manifest(&entry) {
            collect(&entry, found)?;
        } else {
            found.skipped += 1;
        }
    }
    Ok(())
}
