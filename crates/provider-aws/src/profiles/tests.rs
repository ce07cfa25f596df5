use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::testing::{Fake, at, class};

fn lab() -> (Arc<Fake>, Profiles) {
    let fake = Arc::new(Fake::default());
    let profiles = Profiles::new(fake.aws(), "here", Arc::default());
    (fake, profiles)
}

fn profile(name: &str, path: &str, role: &str) -> InstanceProfile {
    InstanceProfile { name: name.into(), path: path.into(), roles: vec![role.into()], created_at: None }
}

#[tokio::test]
async fn a_role_with_a_path_is_the_same_role() {
    // covers: AWS-IP-05, AWS-IP-06, AWS-IP-10
    let (fake, profiles) = lab();
    let class = class(json!({"role": "teams/a/nodes"}));
    fake.profiles.lock().unwrap().push(profile("profile", "/", "nodes"));
    assert_eq!(profiles.ensure(&class, "x", at(0)).await.unwrap(), "profile");
    assert_eq!(fake.asked(), ["GetInstanceProfile profile"]);
    assert_eq!(profiles.ensure(&class, "x", at(899)).await.unwrap(), "profile");
    assert!(fake.asked().is_empty(), "read once in fifteen minutes");
    fake.profiles.lock().unwrap().clear();
    let made = profiles.ensure(&class, "x", at(901)).await.unwrap();
    assert_ne!(made, "profile");
    assert!(fake.asked().contains(&"AddRole nodes".to_owned()), "attached by its bare name");
}

#[tokio::test]
async fn a_lost_status_update_makes_no_second_profile() {
    // covers: AWS-IP-09
    let (fake, profiles) = lab();
    let mut class = class(json!({"role": "nodes"}));
    class.status = None;
    let first = profiles.ensure(&class, "x", at(0)).await.unwrap();
    assert_eq!(profiles.ensure(&class, "y", at(59)).await.unwrap(), first);
    assert_eq!(fake.profiles.lock().unwrap().len(), 1);
    assert_ne!(profiles.ensure(&class, "z", at(61)).await.unwrap(), first);
}

#[tokio::test]
async fn nothing_outside_the_path_is_deleted() {
    // covers: AWS-IP-12, AWS-IP-13
    let (fake, profiles) = lab();
    let class = class(json!({}));
    let legacy = profiles.name("main");
    let ours = "/karpenter/us-east-1/here/u-1/";
    let foreign = "/karpenter/us-east-1/elsewhere/u-1/";
    *fake.profiles.lock().unwrap() =
        vec![profile("mine", ours, "nodes"), profile("theirs", foreign, "nodes"), profile(&legacy, "/", "nodes")];
    profiles.delete_of(&class, at(0)).await.unwrap();
    let left: Vec<String> = fake.profiles.lock().unwrap().iter().map(|profile| profile.name.clone()).collect();
    assert_eq!(left, ["theirs"]);
    let deleted: Vec<String> =
        fake.asked().into_iter().filter(|call| call.starts_with("Delete") || call.starts_with("Remove")).collect();
    assert_eq!(deleted[0], "RemoveRole nodes", "the role first");
    assert!(is_profile_name("here_123") && !is_profile_name("a b") && !is_profile_name(""));
}

#[tokio::test]
async fn a_profile_says_whose_it_is() {
    // covers: API-EC2-51
    let (fake, profiles) = lab();
    let mut class = class(json!({"role": "nodes", "tags": {"team": "a"}}));
    class.status = None;
    let made = profiles.ensure(&class, "x", at(0)).await.unwrap();
    let hash = made.strip_prefix("here_").unwrap();
    assert!(!hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_digit()), "{made}");
    assert_eq!(fake.profiles.lock().unwrap()[0].path, "/karpenter/us-east-1/here/u-1/");
    let tags: Vec<(String, String)> = fake.profile_tags.lock().unwrap().clone().into_iter().collect();
    let want = [
        ("eks:eks-cluster-name", "here"),
        ("karpenter.k8s.aws/ec2nodeclass", "main"),
        ("kubernetes.io/cluster/here", "owned"),
        ("team", "a"),
        ("topology.kubernetes.io/region", "us-east-1"),
    ];
    assert_eq!(tags, want.map(|(key, value)| (key.to_owned(), value.to_owned())));
    class.spec.role = Some("others".to_owned());
    assert_ne!(profiles.ensure(&class, "y", at(61)).await.unwrap(), made, "another role, another profile");
}
