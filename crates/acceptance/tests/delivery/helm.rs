//! Running helm, and what it renders.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

/// The chart's folder.
pub(crate) fn chart(name: &str) -> PathBuf {
    repository().join("charts").join(name)
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(crate) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The helm named by HELM, or the one in the path.
pub(crate) fn helm() -> Option<Helm> {
    let named = std::env::var_os("HELM").map(PathBuf::from);
    let found = named.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("helm")).find(|file| file.is_file())
    });
    if found.is_none() {
        eprintln!("passed over: there is no helm; HELM names one");
    }
    found.map(|program| Helm { program })
}

pub(crate) struct Helm {
    program: PathBuf,
}

impl Helm {
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        // Nothing of who runs the tests: no cluster, no plugins, no repositories.
        let home = std::env::temp_dir().join("karpenter-acceptance-helm");
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, &home);
        }
        command.env_remove("KUBECONFIG").args(arguments);
        command.output().unwrap_or_else(|error| panic!("{}: {error}", self.program.display()))
    }

    /// `helm template`, or what it said instead.
    pub(crate) fn try_template(&self, chart: &Path, release: &Release<'_>) -> Result<Rendered, String> {
        let folder = chart.to_string_lossy().into_owned();
        let mut arguments = vec!["template", release.name, &folder, "--namespace", release.namespace];
        if let Some(image) = release.image {
            arguments.extend(["--set", image]);
        }
        for set in release.set {
            arguments.extend(["--set", set]);
        }
        for api in release.apis {
            arguments.extend(["--api-versions", api]);
        }
        let file = release.values.map(|text| {
            static FILES: AtomicUsize = AtomicUsize::new(0);
            let number = FILES.fetch_add(1, Ordering::Relaxed);
            let name = format!("karpenter-values-{}-{number}.yaml", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_string_lossy().into_owned()
        });
        if let Some(file) = &file {
            arguments.extend(["--values", file]);
        }
        let output = self.run(&arguments);
        if let Some(file) = file {
            std::fs::remove_file(file).unwrap();
        }
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        Ok(Rendered { objects: documents.into_iter().filter(|document| !document.is_null()).collect() })
    }

    pub(crate) fn template(&self, release: &Release<'_>) -> Rendered {
        self.try_template(&chart("karpenter"), release).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The image that every installation of ours must name.
pub(crate) const IMAGE: &str = "controller.image.repository=registry.example/karpenter/controller";

/// What is installed: `helm template NAME --namespace NAMESPACE --set … --values …`.
#[derive(Clone, Copy)]
pub(crate) struct Release<'a> {
    /// As `--set` has it.
    pub(crate) image: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) set: &'a [&'a str],
    pub(crate) values: Option<&'a str>,
    pub(crate) apis: &'a [&'a str],
}

impl Default for Release<'_> {
    fn default() -> Self {
        Self {
            image: Some(IMAGE),
            name: "karpenter",
            namespace: "karpenter",
            set: &["settings.clusterName=shop"],
            values: None,
            apis: &[],
        }
    }
}

pub(crate) struct Rendered {
    pub(crate) objects: Vec<Value>,
}

impl Rendered {
    pub(crate) fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> &Value {
        self.find(kind, name).unwrap_or_else(|| panic!("no {kind} {name} among {:?}", self.names()))
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = |object: &Value| format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]));
        let mut names: Vec<String> = self.objects.iter().map(name).collect();
        names.sort();
        names
    }

    /// The Deployment's pod.
    pub(crate) fn pod(&self) -> &Value {
        let deployment = self.objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        &deployment["spec"]["template"]["spec"]
    }

    pub(crate) fn container(&self) -> &Value {
        &self.pod()["containers"][0]
    }

    /// A variable of the controller, if it is there with a value.
    pub(crate) fn env(&self, name: &str) -> Option<&str> {
        let all = self.container()["env"].as_array().unwrap();
        // The last of several wins, as in Kubernetes.
        all.iter().rfind(|variable| variable["name"] == name)?["value"].as_str()
    }
}
