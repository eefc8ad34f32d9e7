//! Requests with one answer.

use std::time::Duration;

use silverback_client::{Client, RefusalReason, RequestError, Series};

use crate::fake::Fake;

#[tokio::test]
async fn a_few_series_are_written_at_once() {
    let fake = Fake::start([]);
    let client = fake.client().await;
    let series = [
        Series::new("t", [("room", "a")]).sample(1, 1.0).sample(2, 2.0),
        Series::new("t", [("room", "b")]).sample(5, 1.0).sample(4, 2.0),
    ];
    let written = client.write(&series).await.unwrap();
    assert_eq!(written.samples_written, 3);
    let [refusal] = written.refusals.as_slice() else { panic!("{written:?}") };
    assert_eq!((refusal.reason, refusal.samples), (RefusalReason::OutOfOrder, 1));
    assert_eq!(refusal.labels[1].1, "b");
    let again = client.write(&series[..1]).await.unwrap();
    assert_eq!(again.samples_written, 2, "what is stored already counts as written");
    assert_eq!(client.write(&[]).await.unwrap().samples_written, 0);
}

#[tokio::test]
async fn shards_and_cells_are_told() {
    let admin = Fake::start([]).client().await.admin();
    let shards = admin.shards().await.unwrap();
    assert_eq!((shards.shards[0].samples, shards.uptime), (7, Duration::from_millis(1500)));
    assert_eq!(admin.cells(None).await.unwrap()[0].shard, 9);
    assert_eq!(admin.cells(Some(3)).await.unwrap()[0].shard, 3);
}

#[tokio::test]
async fn a_method_that_the_node_does_not_know_is_told() {
    let health = Fake::start([]).client().await.health().await;
    assert!(matches!(health, Err(RequestError::Unsupported(_))), "{health:?}");
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_not_waited_for() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let client =
        Client::builder(address).request_timeout(Duration::from_millis(100)).connect().await.unwrap();
    assert!(matches!(client.admin().shards().await, Err(RequestError::TimedOut(_))));
}

#[tokio::test]
async fn what_is_told_over_http_alone_comes_over_the_same_connection() {
    let fake = Fake::start([]);
    fake.state().authorization = Some("Bearer secret".to_owned());
    let builder = || Client::builder(format!("http://{}", fake.address));
    let client = builder().bearer_token("secret").connect().await.unwrap();
    let missing = client.get("/api/v1/status/refusals").await.unwrap_err();
    assert!(matches!(&missing, RequestError::Unsupported(words) if words.contains("404")), "{missing}");
    fake.state().refusals = Some((200, "{}".to_owned()));
    assert_eq!(client.get("/api/v1/status/refusals").await.unwrap(), "{}");
    fake.state().refusals = Some((503, "it replays its log".to_owned()));
    let away = client.get("/api/v1/status/refusals").await.unwrap_err();
    assert!(away.is_retryable() && away.to_string().contains("it replays its log"), "{away}");
    assert!(matches!(client.get("no path").await, Err(RequestError::Invalid(_))));
    let gone = client.delete("/api/v1/status/active_queries/0-1").await.unwrap_err();
    assert!(matches!(&gone, RequestError::Failed { message, .. } if message == "no such page"), "{gone}");
    assert_eq!(fake.state().asked.last().unwrap(), "DELETE /api/v1/status/active_queries/0-1");
    let stranger = builder().connect().await.unwrap().get("/api/v1/status/refusals").await;
    assert!(matches!(stranger, Err(RequestError::Denied(_))), "{stranger:?}");
}
