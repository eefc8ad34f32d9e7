//! A whole node with locked doors: who is let in to what, over plain and encrypted connections, and what becomes of
//! that when the files that say it change.

mod admission;
mod attacks;
mod certificates;
mod expiry;
mod floods;
mod guesses;
mod handshakes;
mod reload;
mod renegotiation;
mod scene;
mod tls;
mod web_files;
