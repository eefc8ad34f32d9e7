//! Reads the last hour: `read 'room_temperature{room="kitchen"}' [ADDRESS]`

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use futures::TryStreamExt;
use silverback_client::{Client, Selector};

type Error = Box<dyn std::error::Error>;

const HOUR_MS: i64 = 3_600_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match read(std::env::args().skip(1).collect()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("read: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn read(arguments: Vec<String>) -> Result<(), Error> {
    let (selector, address) = match arguments.as_slice() {
        [selector] => (selector, "http://127.0.0.1:9009"),
        [selector, address] => (selector, address.as_str()),
        _ => return Err("usage: read SELECTOR [ADDRESS]".into()),
    };
    let selector: Selector = selector.parse()?;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
    let reader = Client::connect(address).await?.reader();
    let mut found = reader.select(&selector, now_ms - HOUR_MS..=now_ms).await?;
    while let Some(series) = found.try_next().await? {
        let labels: Vec<_> =
            series.labels.iter().map(|(name, value)| format!("{name:?}={value:?}")).collect();
        println!("{{{}}}", labels.join(","));
        for (timestamp_ms, value) in series.samples {
            println!("  {timestamp_ms} {value}");
        }
    }
    Ok(())
}
