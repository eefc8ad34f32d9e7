//! `silverctl top`: shards and hot cells of a node as they are now, looked at again and again.

mod look;
mod rates;
mod screen;
mod table;

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use indicatif::HumanDuration;
use silverback_client::{Admin, RequestError};
use silverback_model::printable::Printable;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

use self::look::Look;
use self::rates::Rates;
use self::screen::{Screen, ScreenView, Wish, wishes};
use crate::connection::ConnectionArgs;
use crate::error::{CommandError, Done, output};
use crate::interrupt::Interrupt;
use crate::shown::terminal_width;
use crate::table::Table;
use crate::time_text::parse_duration;

/// Looking more often costs the node more than it shows.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Watch a node's shards and its hottest cells.
///
/// Rates are what happened between two looks. `q` ends it. A narrow screen leaves the columns out that matter
/// least, and says which.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Time between two looks.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    interval: Duration,
    /// Cells to show, the busiest first.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    cells: usize,
    /// Look twice, print what happened between, and end.
    #[arg(long)]
    once: bool,
}

/// Looks once or until it is ended.
pub(crate) async fn run(arguments: &TopArgs, connection: &ConnectionArgs, interrupt: Interrupt) -> Done {
    if arguments.interval < INTERVAL_MIN {
        return Err(CommandError::Usage(format!("--interval must be at least {INTERVAL_MIN:?}")));
    }
    if !arguments.once && !std::io::stdout().is_terminal() {
        return Err(CommandError::Usage("top draws on a terminal; print with --once".to_owned()));
    }
    let admin = connection.connect().await?.admin();
    if arguments.once {
        return interrupt.or(once(arguments, &connection.address, &admin)).await;
    }
    // Errors of the first look are reported as those of any command.
    let first = Look::take(&admin).await?;
    live(arguments, &connection.address, admin, first, interrupt).await
}

async fn once(arguments: &TopArgs, address: &str, admin: &Admin) -> Done {
    let older = Look::take(admin).await?;
    sleep(arguments.interval).await;
    let newer = Look::take(admin).await?;
    let mut view = arguments.view(address, Some(&older), &newer);
    let (mut out, mut left_out) = (output(), Vec::new());
    writeln!(out, "{}", view.title)?;
    for table in &mut view.tables {
        left_out.extend(table.narrow(terminal_width().unwrap_or(usize::MAX)));
        writeln!(out)?;
        table.lines().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    if !left_out.is_empty() {
        writeln!(out, "\ntoo narrow for: {}", left_out.join(", "))?;
    }
    Ok(out.flush()?)
}

async fn live(
    arguments: &TopArgs,
    address: &str,
    admin: Admin,
    first: Look,
    mut interrupt: Interrupt,
) -> Done {
    let mut screen = Screen::open()?;
    let (mut wishes, mut looks) = (wishes(), looks(admin, arguments.interval));
    let mut view = arguments.view(address, None, &first);
    let mut older = first;
    loop {
        screen.draw(&view)?;
        tokio::select! {
            () = interrupt.come() => return Ok(()),
            wish = wishes.recv() => match wish {
                Some(Wish::End) => return Ok(()),
                Some(Wish::Redraw) => {}
                None => return Err("the terminal's keyboard can't be read".into()),
            },
            Some(look) = looks.recv() => match look {
                Ok(newer) => {
                    view = arguments.view(address, Some(&older), &newer);
                    older = newer;
                }
                // It may come back: what was seen last stays.
                Err(error) => view.fault = Some(Printable(&error.to_string()).to_string()),
            },
        }
    }
}

/// Looks again and again, beside the screen: a node that answers late doesn't hold up a key.
fn looks(admin: Admin, period: Duration) -> mpsc::Receiver<Result<Look, RequestError>> {
    let (sender, looks) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is at once, and has been looked at.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            if sender.send(Look::take(&admin).await).await.is_err() {
                return;
            }
        }
    });
    looks
}

impl TopArgs {
    fn view(&self, address: &str, older: Option<&Look>, newer: &Look) -> ScreenView {
        let rates = Rates::between(older, newer);
        let up = HumanDuration(newer.shards.uptime);
        ScreenView {
            title: format!("silverback {} at {address}, up for {up}", Printable(&newer.shards.version)),
            fault: None,
            tables: vec![Table::of_shards(&rates), Table::of_cells(&rates, self.cells)],
        }
    }
}
