//! Equal fleet requests are one call. Its client token derives from the claims it serves, so that asking again after a
//! crash gives the same instances instead of more.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use ring::digest::{SHA256, digest};

use crate::batcher::{Batcher, Execute, Measure, Window};
use crate::calls::{Aws, AwsError, CreateFleet, FleetAnswer, FleetError, FleetInstances, Result};
use crate::ttl::{Now, Ttl};

const WINDOW: Window = Window { idle: Duration::from_millis(35), longest: Duration::from_secs(1), most: 1000 };
/// EC2 remembers tokens for about as long.
const SPENT: Duration = Duration::from_secs(3600);

pub(crate) struct FleetBatch {
    batcher: Batcher<CreateFleet, String, Result<FleetAnswer>>,
}

impl FleetBatch {
    pub(crate) fn new(aws: Aws, now: Now, measure: Measure) -> Self {
        let caller = Arc::new(Caller { aws, now, spent: Ttl::new(SPENT) });
        let execute: Execute<CreateFleet, String, Result<FleetAnswer>> = Arc::new(move |request, uids| {
            let caller = caller.clone();
            async move { caller.call(request, uids).await }.boxed()
        });
        Self { batcher: Batcher::new(WINDOW, execute, measure) }
    }

    /// `uid` is that of the claim. The answer has at most one instance, and all errors of the fleet.
    pub(crate) async fn create(&self, request: CreateFleet, uid: String) -> Result<FleetAnswer> {
        if request.total != 1 {
            let message = format!("a batched request is for one instance, not {}", request.total);
            return Err(AwsError::new("CreateFleet", "InvalidParameterValue", message));
        }
        match self.batcher.add(request, uid).await {
            Ok(answer) => answer,
            Err(dropped) => Err(AwsError::new("CreateFleet", "Dropped", dropped.to_string())),
        }
    }
}

struct Caller {
    aws: Aws,
    now: Now,
    /// How often a claim's token has been used up: EC2 answers a spent token with the old answer.
    spent: Ttl<String, u32>,
}

impl Caller {
    async fn call(&self, request: CreateFleet, uids: Vec<String>) -> Vec<Result<FleetAnswer>> {
        let total = u32::try_from(uids.len()).unwrap_or(u32::MAX);
        let with_token = || CreateFleet { total, client_token: Some(self.token(&uids)), ..request.clone() };
        let mut answer = self.aws.ec2.create_fleet(&with_token()).await;
        if answer.as_ref().is_err_and(AwsError::is_token_mismatch) {
            // An earlier attempt asked for something else. What it launched, if anything, no claim holds: it is swept.
            self.spend(&uids);
            answer = self.aws.ec2.create_fleet(&with_token()).await;
        }
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return uids.iter().map(|_| Err(error.clone())).collect(),
        };
        let answers = share(&answer, uids.len());
        for (uid, answer) in uids.iter().zip(&answers) {
            if answer.instances.is_empty() {
                self.spend(std::slice::from_ref(uid));
            }
        }
        answers.into_iter().map(Ok).collect()
    }

    fn spend(&self, uids: &[String]) {
        let now = (self.now)();
        for uid in uids {
            let times = self.spent.get(uid, now).unwrap_or(0);
            self.spent.set(uid.clone(), times + 1, now);
        }
    }

    fn token(&self, uids: &[String]) -> String {
        let now = (self.now)();
        let with_attempt = |uid: &String| match self.spent.get(uid, now).unwrap_or(0) {
            0 => uid.clone(),
            times => format!("{uid}#{times}"),
        };
        let mut words: Vec<String> = uids.iter().map(with_attempt).collect();
        words.sort();
        let digest = digest(&SHA256, words.join("\n").as_bytes());
        digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// One instance for each requester; who gets none gets the errors, or a stand-in where the fleet gave no reason.
fn share(answer: &FleetAnswer, requesters: usize) -> Vec<FleetAnswer> {
    let mut instances = answer
        .instances
        .iter()
        .flat_map(|found| found.ids.iter().map(move |id| FleetInstances { ids: vec![id.clone()], ..found.clone() }));
    let mut shares: Vec<FleetAnswer> = Vec::with_capacity(requesters);
    for _ in 0..requesters {
        let mine = instances.next();
        let mut errors = answer.errors.clone();
        if mine.is_none() && errors.is_empty() {
            errors.push(FleetError {
                code: "UnfulfillableCapacity".to_owned(),
                message: "the fleet launched fewer instances than asked for".to_owned(),
                instance_type: String::new(),
                zone: String::new(),
                subnet_id: None,
            });
        }
        shares.push(FleetAnswer { fleet_id: answer.fleet_id.clone(), instances: mine.into_iter().collect(), errors });
    }
    let surplus: Vec<String> = instances.flat_map(|found| found.ids).collect();
    if !surplus.is_empty() {
        tracing::warn!(instances = ?surplus, "the fleet launched more instances than asked for");
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(ids: &[&[&str]], errors: usize) -> FleetAnswer {
        let group = |ids: &&[&str]| FleetInstances {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            instance_type: "m5.large".into(),
            zone: "a".into(),
            subnet_id: None,
            image_id: None,
        };
        let error = FleetError {
            code: "InsufficientInstanceCapacity".into(),
            message: "m".into(),
            instance_type: "c5.large".into(),
            zone: "b".into(),
            subnet_id: None,
        };
        FleetAnswer {
            fleet_id: "fleet-1".into(),
            instances: ids.iter().map(group).collect(),
            errors: vec![error; errors],
        }
    }

    #[test]
    fn each_instance_goes_to_one_requester() {
        // covers: AWS-BATCH-02
        let ids = |shares: &[FleetAnswer]| {
            shares
                .iter()
                .map(|s| s.instances.iter().flat_map(|i| i.ids.clone()).collect::<Vec<_>>().join(","))
                .collect::<Vec<_>>()
        };
        let shares = share(&answer(&[&["i-1", "i-2"], &["i-3"]], 1), 4);
        assert_eq!(ids(&shares), ["i-1", "i-2", "i-3", ""]);
        assert!(shares.iter().all(|share| share.errors.len() == 1), "all learn from the errors");
        let short = share(&answer(&[&["i-1"]], 0), 2);
        assert_eq!((short[0].errors.len(), short[1].errors[0].code.as_str()), (0, "UnfulfillableCapacity"));
        assert_eq!(ids(&share(&answer(&[&["i-1", "i-2"]], 0), 1)), ["i-1"], "surplus is left to the sweep");
    }

    #[tokio::test]
    async fn a_request_is_for_one_instance() {
        // covers: AWS-BATCH-08
        let fake = Arc::new(crate::testing::Fake::default());
        let batch = FleetBatch::new(fake.aws(), Arc::new(|| crate::testing::at(0)), Arc::new(|_, _| {}));
        let request = CreateFleet {
            client_token: None,
            dry_run: false,
            kind: crate::calls::FleetKind::Spot,
            total: 2,
            configs: vec![],
            tags: Default::default(),
            context: None,
            prioritized: false,
        };
        assert_eq!(batch.create(request, "uid".to_owned()).await.unwrap_err().code, "InvalidParameterValue");
        assert!(fake.asked().is_empty());
    }

    #[test]
    fn the_token_is_the_claims() {
        let fake = Arc::new(crate::testing::Fake::default());
        let caller = Caller { aws: fake.aws(), now: Arc::new(|| crate::testing::at(0)), spent: Ttl::new(SPENT) };
        let token = |uids: &[&str]| caller.token(&uids.iter().map(|uid| (*uid).to_owned()).collect::<Vec<_>>());
        assert_eq!(token(&["b", "a"]), token(&["a", "b"]), "order does not matter");
        assert_ne!(token(&["a", "b"]), token(&["a"]));
        assert_eq!(token(&["a"]).len(), 64, "as long as EC2 takes them");
        let first = token(&["a"]);
        caller.spend(&["a".to_owned()]);
        assert_ne!(token(&["a"]), first, "a spent token would give the old answer");
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_joined_share_the_failure_of_their_call() {
        // covers: AWS-BATCH-03
        let fake = Arc::new(crate::testing::Fake::default());
        let batch = FleetBatch::new(fake.aws(), Arc::new(|| crate::testing::at(0)), Arc::new(|_, _| {}));
        let request = CreateFleet {
            client_token: None,
            dry_run: false,
            kind: crate::calls::FleetKind::Spot,
            total: 1,
            configs: vec![],
            tags: Default::default(),
            context: None,
            prioritized: false,
        };
        let joined = (0..3).map(|n| batch.create(request.clone(), format!("uid-{n}")));
        let answers = futures_util::future::join_all(joined).await;
        assert!(answers.iter().all(Result::is_err), "one call failed, and with it all who joined");
        assert_eq!(fake.asked(), ["CreateFleet 3"]);
    }
}
