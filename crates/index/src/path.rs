//! Where in an object something stands, spelled as users write it: `spec.containers[0].resources.requests.cpu`.

use std::fmt;

/// A path that costs nothing until it is printed: each step lives on the stack of whoever takes it.
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub fn field(&'a self, name: &'a str) -> Self {
        Self::Field(self, name)
    }

    pub fn index(&'a self, position: usize) -> Self {
        Self::Index(self, position)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Index(parent, position) => write!(f, "{parent}[{position}]"),
            // A key with dots or slashes, a label's or a resource's, is quoted, or the path could not be read back.
            Self::Field(parent, name) if name.contains(['.', '/', '[']) => write!(f, "{parent}[{name:?}]"),
            Self::Field(Path::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_like_manifests() {
        let root = Path::Root;
        let spec = root.field("spec");
        let containers = spec.field("containers");
        let first = containers.index(0);
        assert_eq!(first.field("image").to_string(), "spec.containers[0].image");
        assert_eq!(first.field("nvidia.com/gpu").to_string(), "spec.containers[0][\"nvidia.com/gpu\"]");
    }
}
