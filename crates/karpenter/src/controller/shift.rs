//! Who works and until when: the lease, the webhook beside it, and an end that leaves nothing half done.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::FutureExt as _;
use karpenter_api::ConversionService;
use karpenter_controllers::{Clock, Shift};
use karpenter_runtime::lease::{Candidacy, ElectionThread};
use karpenter_runtime::metrics::Leading;
use karpenter_runtime::serve::Readiness;
use karpenter_runtime::webhook::{self, Keeper, Webhook};
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Started;
use super::connection::Connection;
use crate::cluster::End;
use crate::settings::controller::ControllerSettings;

/// Pods have half a minute to end; the lease is let go within it.
const FINISHING: Duration = Duration::from_secs(25);
/// A migration that failed is tried again after this.
const MIGRATE_AGAIN: Duration = Duration::from_secs(60);

/// Works while it leads, until it is asked to end, and then finishes what is under way.
pub(super) async fn work(
    started: Started,
    settings: &ControllerSettings,
    readiness: &Readiness,
    end: &mut End,
) -> anyhow::Result<ExitCode> {
    let Started { connection, clock, leadership, autoscaler, _webhook: webhook, market } = started;
    let context = Arc::clone(&autoscaler.context);
    let (lead, leads) = watch::channel(false);
    let (finish, finishes) = watch::channel(false);
    let warm = settings.election.as_ref().is_none_or(|election| election.warm_up);
    if warm {
        readiness.watches(context.clone());
    } else {
        readiness.stands_by(context.clone());
    }
    let working = {
        let (readiness, context, leads) = (readiness.clone(), context.clone(), leads.clone());
        async move {
            if !warm {
                tokio::select! {
                    () = turns_true(leads.clone()) => readiness.watches(context),
                    () = turns_true(finishes.clone()) => return,
                }
            }
            autoscaler.work(Shift { start: turns_true(leads).boxed(), end: turns_true(finishes).boxed() }).await;
        }
    };
    let mut beside = JoinSet::new();
    if webhook.is_some() {
        beside.spawn(migrate(context.client.clone(), leads.clone()));
    }
    let election = match &settings.election {
        Some(election) => {
            let candidacy = Candidacy {
                namespace: election.namespace.clone().unwrap_or_else(|| connection.namespace()),
                lease: election.lease.clone(),
                identity: identity(),
            };
            // A client of its own: nothing we do can keep a renewal waiting.
            let connect = connection.another_client();
            Some(ElectionThread::start(connect, candidacy, clock.clone(), leadership).await?)
        }
        None => None,
    };
    let name = settings.election.as_ref().map_or("", |election| &election.lease);
    let status = Leading::register(&context, name);
    let mut joined = None;
    let ended = {
        let leading = async {
            if let Some(election) = &election {
                election.leads().await;
            }
            if let Some(market) = &market {
                joined = Some(market.join(&clock).await?);
            }
            status.set(true);
            lead.send_replace(true);
            match &election {
                Some(election) => election.over().await,
                None => std::future::pending::<()>().await,
            }
            status.set(false);
            anyhow::Ok(())
        };
        tokio::pin!(leading, working);
        tokio::select! {
            ended = &mut leading => {
                ended?;
                bail!("leader election lost")
            }
            () = &mut working => bail!("the controllers ended"),
            () = end.asked_for() => {}
        }
        tracing::info!("asked to end, finishing what is under way");
        finish.send_replace(true);
        tokio::select! {
            _ = &mut leading => bail!("leader election lost"),
            done = tokio::time::timeout(FINISHING, &mut working) => done.is_ok(),
        }
    };
    if !ended {
        tracing::error!(seconds = FINISHING.as_secs(), "not everything could be finished in time");
    }
    if let Some(election) = election {
        election.release().await;
    }
    drop((joined, webhook, beside));
    Ok(ExitCode::SUCCESS)
}

async fn turns_true(mut signal: watch::Receiver<bool>) {
    // Whoever could still say so is gone: then it never will be.
    if signal.wait_for(|yes| *yes).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Once we lead, everything that is stored as v1beta1 is rewritten.
async fn migrate(client: Client, leads: watch::Receiver<bool>) {
    turns_true(leads).await;
    while let Err(error) = webhook::migrate(&client).await {
        tracing::error!(controller = "migration.crd", error = %error, "Reconciler error");
        tokio::time::sleep(MIGRATE_AGAIN).await;
    }
}

/// Ours alone, also when a pod of the same name comes after us.
fn identity() -> String {
    let host = host(std::env::var("HOSTNAME").ok(), std::fs::read_to_string(OWN_NAME).ok());
    let now = Clock::system().now().as_nanosecond();
    format!("{host}_{now:x}-{:x}", std::process::id())
}

/// What the operating system calls the machine, in a container the pod.
const OWN_NAME: &str = "/proc/sys/kernel/hostname";

/// The first of these that says something. Shells set HOSTNAME, and images without one do not.
fn host(of_environment: Option<String>, of_system: Option<String>) -> String {
    let named = [of_environment, of_system].into_iter().flatten().map(|name| name.trim().to_owned());
    named.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "karpenter".to_owned())
}

/// The conversion webhook and the task that looks after its certificate.
pub(crate) struct Hook {
    _webhook: Arc<Webhook>,
    _upkeep: JoinSet<()>,
}

impl Hook {
    /// None without a Service that the API server could find it under.
    pub(super) async fn start(
        connection: &Connection,
        settings: &ControllerSettings,
        clock: &Clock,
    ) -> anyhow::Result<Option<Self>> {
        let Some(service) = connection.conversion_service(settings) else {
            tracing::debug!("no conversion webhook: it is switched off, or karpenter-service is not set");
            return Ok(None);
        };
        let port = settings.webhook.as_ref().map_or(0, |webhook| webhook.port);
        let keeper = Keeper::new(connection.client.clone(), &service.namespace, &service.name);
        let makeshift = keeper.makeshift(clock.now()).context("cannot make a certificate")?;
        let webhook = Webhook::start(port, &makeshift, connection.client_of_conversion()?).await;
        let webhook = Arc::new(webhook.context("cannot serve the conversion webhook")?);
        let mut upkeep = JoinSet::new();
        let (shown, clock): (Arc<Webhook>, Clock) = (webhook.clone(), clock.clone());
        let service: ConversionService = service;
        upkeep.spawn(async move { webhook::maintain(&shown, &keeper, &clock, &service).await });
        Ok(Some(Self { _webhook: webhook, _upkeep: upkeep }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_the_lease_is_named_after_its_host() {
        // covers: API-HM-53
        let text = |name: &str| Some(name.to_owned());
        for (of_environment, of_system, want) in [
            (text("karpenter-7d4"), text("ip-10-0-0-1\n"), "karpenter-7d4"),
            (None, text("ip-10-0-0-1\n"), "ip-10-0-0-1"),
            (text(""), text("ip-10-0-0-1\n"), "ip-10-0-0-1"),
            (None, None, "karpenter"),
        ] {
            assert_eq!(host(of_environment, of_system), want);
        }
        #[cfg(target_os = "linux")]
        assert!(std::path::Path::new(OWN_NAME).exists());
    }
}
