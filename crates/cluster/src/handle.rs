//! How others speak to a running cluster.

use crate::kubelet::Machine;
use crate::kubelet::fleet::Pressure;
use tokio::sync::{mpsc, oneshot};

/// What a cluster can be told. Kept in one channel, so that what is said first happens first.
#[derive(Debug)]
pub enum Command {
    Add(Box<Machine>),
    Remove(String),
    Silence { name: String, silent: bool },
    Press { name: String, pressure: Pressure, on: bool },
    Machines(oneshot::Sender<Vec<String>>),
}

/// A cluster lives as long as one of its handles.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) commands: mpsc::Sender<Command>,
}

/// The cluster has ended.
#[derive(Debug, thiserror::Error)]
#[error("the cluster has ended")]
pub struct Ended;

impl Handle {
    /// Switches a machine on: it boots, registers and becomes ready by itself.
    pub async fn add_machine(&self, machine: Machine) -> Result<(), Ended> {
        self.tell(Command::Add(Box::new(machine))).await
    }

    /// A machine disappears without a word.
    pub async fn remove_machine(&self, name: &str) -> Result<(), Ended> {
        self.tell(Command::Remove(name.into())).await
    }

    /// Cuts a machine's kubelet off from the API server, or connects it again.
    pub async fn silence(&self, name: &str, silent: bool) -> Result<(), Ended> {
        self.tell(Command::Silence { name: name.into(), silent }).await
    }

    /// Puts a machine under pressure, or takes the pressure away.
    pub async fn press(&self, name: &str, pressure: Pressure, on: bool) -> Result<(), Ended> {
        self.tell(Command::Press { name: name.into(), pressure, on }).await
    }

    /// The machines that are switched on, by name.
    pub async fn machines(&self) -> Result<Vec<String>, Ended> {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::Machines(answer)).await?;
        answered.await.map_err(|_| Ended)
    }

    async fn tell(&self, command: Command) -> Result<(), Ended> {
        self.commands.send(command).await.map_err(|_| Ended)
    }
}
