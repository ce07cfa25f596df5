//! Launch templates in EC2: made when needed, deleted when nobody has used them for a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp;
use karpenter_api::labels;
use tokio::sync::Mutex;

use crate::batcher::{Batcher, Execute, Window};
use crate::calls::{Aws, AwsError, DescribeLaunchTemplates, Filter, LaunchTemplate, NewLaunchTemplate, Result};
use crate::ttl::later;

const LIFE: Duration = Duration::from_secs(60);
const PAGE: u32 = 200;
/// As many values as a filter takes. The launches of one pass come within a moment of each other.
const WINDOW: Window = Window { idle: Duration::from_millis(10), longest: Duration::from_millis(100), most: 200 };

pub struct Templates {
    aws: Aws,
    cluster: String,
    /// By name; until when each is kept. Whoever deletes holds the lock over its calls, so that nobody counts on what goes.
    known: Mutex<BTreeMap<String, (LaunchTemplate, Timestamp)>>,
    /// By name: held over the calls that make one, so that equal launches make one template, and others do not wait.
    making: [Mutex<()>; 16],
    /// Whether EC2 has a template of that name: one question for all that are to be launched from.
    look: Batcher<(), String, Result<Option<LaunchTemplate>>>,
}

impl Templates {
    pub fn new(aws: Aws, cluster: &str) -> Self {
        let looking = aws.clone();
        let look: Execute<(), String, Result<Option<LaunchTemplate>>> = Arc::new(move |(), names| {
            let aws = looking.clone();
            async move { look_for(&aws, names).await }.boxed()
        });
        Self {
            aws,
            cluster: cluster.to_owned(),
            known: Mutex::default(),
            making: Default::default(),
            look: Batcher::new(WINDOW, look, Arc::new(|_, _| {})),
        }
    }

    pub async fn ensure(&self, template: &NewLaunchTemplate, now: Timestamp) -> Result<()> {
        let _making = self.making(&template.name).lock().await;
        if let Some((_, until)) = self.known.lock().await.get_mut(&template.name) {
            *until = later(now, LIFE);
            return Ok(());
        }
        let found = match self.look.add((), template.name.clone()).await {
            Ok(answer) => answer?,
            Err(dropped) => return Err(AwsError::new("DescribeLaunchTemplates", "Dropped", dropped.to_string())),
        };
        let found = match found {
            Some(found) => {
                tracing::debug!(name = template.name, "discovered launch template");
                found
            }
            None => {
                let created = self.aws.ec2.create_launch_template(template).await?;
                tracing::debug!(name = template.name, id = created.id, "created launch template");
                created
            }
        };
        self.known.lock().await.insert(template.name.clone(), (found, later(now, LIFE)));
        Ok(())
    }

    /// Whoever makes or deletes a template of this name holds it meanwhile.
    fn making(&self, name: &str) -> &Mutex<()> {
        let place = name.bytes().fold(0, |sum: usize, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        &self.making[place % self.making.len()]
    }

    /// EC2 does not know them any more; the next launch makes them anew.
    pub async fn forget(&self, names: impl IntoIterator<Item = &str>) {
        let mut known = self.known.lock().await;
        for name in names {
            known.remove(name);
        }
    }

    /// What another process left behind is deleted after its minute too.
    pub async fn adopt(&self, now: Timestamp) -> Result<()> {
        let found = self.tagged(vec![Filter::tag(labels::EKS_CLUSTER_NAME_TAG, &self.cluster)]).await?;
        let mut known = self.known.lock().await;
        for template in found {
            known.entry(template.name.clone()).or_insert((template, later(now, LIFE)));
        }
        Ok(())
    }

    /// Deletes what had its time. A failure is tried again at the next round.
    pub async fn sweep(&self, now: Timestamp) -> Result<()> {
        let names: Vec<String> = self.known.lock().await.keys().cloned().collect();
        for name in names {
            // Launches of other templates go on while EC2 thinks; a template that is being looked for is about to be used.
            let Ok(_making) = self.making(&name).try_lock() else { continue };
            let due = self.known.lock().await.get(&name).filter(|(_, until)| *until <= now).cloned();
            let Some((LaunchTemplate { id, .. }, _)) = due else { continue };
            match self.aws.ec2.delete_launch_template_by_id(&id).await {
                Err(error) if !error.is_not_found() => {
                    tracing::error!(launch_template = name, %error, "failed to delete launch template");
                    return Err(error);
                }
                _ => {
                    tracing::debug!(id, name, "deleted launch template");
                    self.known.lock().await.remove(&name);
                }
            }
        }
        Ok(())
    }

    pub async fn delete_of(&self, class: &str) -> Result<()> {
        let filters =
            vec![Filter::tag(labels::EKS_CLUSTER_NAME_TAG, &self.cluster), Filter::tag(labels::EC2_NODE_CLASS, class)];
        for template in self.tagged(filters).await? {
            self.aws.ec2.delete_launch_template_by_name(&template.name).await?;
            tracing::debug!(id = template.id, name = template.name, "deleted launch template");
            self.known.lock().await.remove(&template.name);
        }
        Ok(())
    }

    async fn tagged(&self, filters: Vec<Filter>) -> Result<Vec<LaunchTemplate>> {
        let request = DescribeLaunchTemplates { names: Vec::new(), filters, max_results: Some(PAGE) };
        self.aws.ec2.describe_launch_templates(&request).await
    }
}

/// By a filter: asked for by name, one template that is not there fails the whole call.
async fn look_for(aws: &Aws, names: Vec<String>) -> Vec<Result<Option<LaunchTemplate>>> {
    let distinct: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let filters = vec![Filter::new("launch-template-name", distinct)];
    let request = DescribeLaunchTemplates { names: Vec::new(), filters, max_results: Some(PAGE) };
    let answer = match aws.ec2.describe_launch_templates(&request).await {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        answer => answer,
    };
    let of = |name: &String| {
        let found = answer.as_ref().map_err(Clone::clone)?;
        let mut named = found.iter().filter(|template| template.name == *name);
        match (named.next(), named.count()) {
            (found, 0) => Ok(found.cloned()),
            (_, more) => {
                let message = format!("expected one template named {name}, found {}", more + 1);
                Err(AwsError::new("DescribeLaunchTemplates", "UnexpectedAnswer", message))
            }
        }
    };
    names.iter().map(of).collect()
}

#[cfg(test)]
mod tests;
