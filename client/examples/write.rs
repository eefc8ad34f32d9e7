//! Writes one sample, now, and waits until it is stored:
//! `write 'room_temperature{room="kitchen"}' 21.5 [http://127.0.0.1:9009]`

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use silverback_client::{Client, Series};

type Error = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match write(std::env::args().skip(1).collect()).await {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("write: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn write(arguments: Vec<String>) -> Result<String, Error> {
    let (series, value, address) = match arguments.as_slice() {
        [series, value] => (series, value, "http://127.0.0.1:9009"),
        [series, value, address] => (series, value, address.as_str()),
        _ => return Err("usage: write SERIES VALUE [ADDRESS]".into()),
    };
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
    let series = Series::parse(series)?.sample(now_ms, value.parse()?);
    let written = Client::connect(address).await?.write(&[series]).await?;
    match written.refusals.as_slice() {
        [] => Ok(format!("{} sample written", written.samples_written)),
        [refusal, ..] => Err(format!("refused: {}", refusal.reason).into()),
    }
}
