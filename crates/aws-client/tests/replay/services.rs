use std::time::Duration;

use karpenter_aws_client::{CallTimeouts, Caller};
use karpenter_provider_aws::calls::{
    Cluster, InstanceProfile, NewInstanceProfile, PriceQuery, QueueMessage, ReceiveMessages, Shift,
};

use crate::server::Server;

#[tokio::test]
async fn public_parameters_are_read() {
    let server = Server::with(&["ssm.GetParameter.public.json"]).await;
    let name = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id";
    assert_eq!(server.connection.aws.ssm.get_parameter(name).await.unwrap(), "ami-0123456789abcdef0");
    let asked = server.only();
    assert_eq!(asked.field("Name"), name);
    // covers: AWS-OPS-13
    assert!(asked.headers["user-agent"].contains("app/karpenter.sh-1.2.3"), "{:?}", asked.headers["user-agent"]);
}

#[tokio::test]
async fn a_cluster_is_told_with_its_service_network() {
    let server = Server::with(&["eks.DescribeCluster.cluster.json"]).await;
    let found = server.connection.aws.eks.describe_cluster("shop").await.unwrap();
    assert_eq!(
        found,
        Cluster {
            arn: "arn:aws:eks:us-east-1:111122223333:cluster/shop".to_owned(),
            version: "1.36".to_owned(),
            endpoint: "https://ABC.gr7.us-east-1.eks.amazonaws.com".to_owned(),
            service_ipv4_cidr: Some("172.20.0.0/16".to_owned()),
            service_ipv6_cidr: None,
            certificate_authority: Some("LS0tLS1CRUdJTg==".to_owned()),
        }
    );
    assert_eq!(server.only().field("name"), "shop");
}

#[tokio::test]
async fn prices_are_read_to_the_last_page() {
    // covers: AWS-PRICE-04
    let server = Server::with(&["pricing.GetProducts.first.json", "pricing.GetProducts.last.json"]).await;
    let query = PriceQuery {
        filters: vec![("regionCode", "us-east-1".into()), ("tenancy", "Shared".into())],
        max_results: 100,
    };
    let found = server.connection.aws.pricing.get_products(&query).await.unwrap();
    assert_eq!(found.len(), 2);
    assert!(found[0].contains("m5.large") && found[1].contains("m5.xlarge"));
    let asked = server.asked();
    assert_eq!(asked.iter().map(|asked| asked.field("NextToken")).collect::<Vec<_>>(), ["", "more"]);
    assert_eq!(asked[0].field("ServiceCode"), "AmazonEC2");
    assert_eq!(asked[0].field("MaxResults"), "100");
    let filters: serde_json::Value = serde_json::from_str(asked[0].field("Filters")).unwrap();
    assert_eq!(filters[1], serde_json::json!({"Type": "TERM_MATCH", "Field": "tenancy", "Value": "Shared"}),);
    // The price list of us-east-1 is told by us-east-1 itself; the signature names the region that was asked.
    assert!(asked[0].headers["authorization"].contains("/us-east-1/pricing/"));
}

#[tokio::test]
async fn messages_are_waited_for() {
    let server =
        Server::with(&["sqs.GetQueueUrl.url.json", "sqs.ReceiveMessage.two.json", "sqs.DeleteMessage.ok.json"]).await;
    let sqs = &server.connection.aws.sqs;
    let url = sqs.get_queue_url("shop").await.unwrap();
    let request = ReceiveMessages {
        url: url.clone(),
        at_most: 10,
        visibility: Duration::from_secs(20),
        wait: Duration::from_secs(20),
    };
    let messages = sqs.receive_messages(&request).await.unwrap();
    assert_eq!(
        messages[0],
        QueueMessage {
            id: "5fea7756-0ea4-451a-a703-a558b933e274".to_owned(),
            receipt_handle: "handle-1".to_owned(),
            body: "{\"version\":\"0\"}".to_owned(),
            sent_at: Some("2026-01-02T03:04:05.678Z".parse().unwrap()),
        }
    );
    assert_eq!((messages.len(), messages[1].sent_at), (2, None));
    sqs.delete_message(&url, "handle-1").await.unwrap();
    let asked = server.asked();
    for (field, want) in [("WaitTimeSeconds", "20"), ("MaxNumberOfMessages", "10"), ("VisibilityTimeout", "20")] {
        assert_eq!(asked[1].field(field), want, "{field}");
    }
    assert_eq!(asked[2].field("ReceiptHandle"), "handle-1");
}

fn receive() -> ReceiveMessages {
    let wait = Duration::from_secs(20);
    ReceiveMessages { url: "https://queue.example/1/shop".to_owned(), at_most: 10, visibility: wait, wait }
}

#[tokio::test]
async fn an_answer_that_never_comes_is_asked_for_again() {
    // covers: AWS-OPS-13
    let (_, status, two) = crate::server::read("sqs.ReceiveMessage.two.json");
    let nothing = String::new();
    let timeouts = CallTimeouts { attempt: Duration::from_millis(200), call: Duration::from_secs(20) };
    let answers = [("ReceiveMessage", 0, &nothing), ("ReceiveMessage", status, &two)];
    let server = Server::with_timeouts(&answers, Some(timeouts)).await;
    assert_eq!(server.connection.aws.sqs.receive_messages(&receive()).await.unwrap().len(), 2);
    assert_eq!(server.asked().len(), 2, "the first connection is still open");

    let timeouts = CallTimeouts { attempt: Duration::from_millis(50), call: Duration::from_millis(200) };
    let server = Server::with_timeouts(&[("ReceiveMessage", 0, &nothing); 3], Some(timeouts)).await;
    server.connection.aws.sqs.receive_messages(&receive()).await.unwrap_err();
    // A spot warning that a stalled receive took in is out of sight for a while, and must still come in time.
    let (stalled, again) = (CallTimeouts::RECEIVES.call, receive().visibility);
    assert!(stalled + again < Duration::from_secs(120) && CallTimeouts::RECEIVES.attempt > receive().wait);
    assert!(CallTimeouts::CALLS.attempt < CallTimeouts::CALLS.call);
}

#[tokio::test]
async fn profiles_are_made_with_path_and_tags_and_listed_to_the_end() {
    // covers: API-IAM-20
    let server = Server::with(&[
        "iam.CreateInstanceProfile.made.xml",
        "iam.ListInstanceProfiles.first.xml",
        "iam.ListInstanceProfiles.last.xml",
    ])
    .await;
    let iam = &server.connection.aws.iam;
    let path = "/karpenter/us-east-1/shop/";
    let new = NewInstanceProfile {
        name: "shop_1".to_owned(),
        path: path.to_owned(),
        tags: [("kubernetes.io/cluster/shop".to_owned(), "owned".to_owned())].into(),
    };
    let made = iam.create_instance_profile(&new).await.unwrap();
    let want = InstanceProfile {
        name: "shop_1".to_owned(),
        path: path.to_owned(),
        roles: Vec::new(),
        created_at: Some("2026-01-02T03:04:05Z".parse().unwrap()),
    };
    assert_eq!(made, want);
    let all = iam.list_instance_profiles("/karpenter/").await.unwrap();
    assert_eq!(all[0], InstanceProfile { roles: vec!["KarpenterNodeRole-shop".to_owned()], ..want });
    assert_eq!(all.iter().map(|profile| profile.name.as_str()).collect::<Vec<_>>(), ["shop_1", "shop_2"]);
    let asked = server.asked();
    assert_eq!(asked[0].field("Path"), path);
    assert_eq!(asked[0].field("Tags.member.1.Key"), "kubernetes.io/cluster/shop");
    assert_eq!(asked[1].field("PathPrefix"), "/karpenter/");
    assert_eq!(asked[2].field("Marker"), "more");
}

#[tokio::test]
async fn shifts_of_a_cluster_are_read() {
    let server = Server::with(&["arc-zonal-shift.GetManagedResource.shifted.json"]).await;
    let arn = "arn:aws:eks:us-east-1:111122223333:cluster/shop";
    let found = server.connection.aws.zonal_shift.get_managed_resource(arn).await.unwrap();
    let expires_at = Some("2026-01-02T03:04:05Z".parse().unwrap());
    assert_eq!(
        found,
        [
            Shift { zone_id: "use1-az1".to_owned(), applied: true, expires_at },
            Shift { zone_id: "use1-az2".to_owned(), applied: false, expires_at },
        ]
    );
    assert_eq!(server.only().field("name"), arn);
}

#[tokio::test]
async fn we_can_ask_who_we_are() {
    let server = Server::with(&["sts.GetCallerIdentity.role.xml"]).await;
    let arn = "arn:aws:sts::111122223333:assumed-role/KarpenterControllerRole-shop/eks-shop";
    assert_eq!(
        server.connection.caller().await.unwrap(),
        Caller { account: "111122223333".to_owned(), arn: arn.to_owned() }
    );
}
