//! Tickets: which batches are in flight, whose they are, and in which order they are collected.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// A submitted batch whose clusters have not been collected yet.
///
/// A ticket is good once, for the finder that gave it: it cannot be copied, and every other finder refuses it. The batch
/// of a ticket that was dropped stays in flight until [`Finder::abandon`](crate::Finder::abandon).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the batch stays in flight until its ticket is collected or `Finder::abandon` throws it away"]
pub struct Ticket {
    finder: u64,
    number: u64,
}

impl Ticket {
    /// The number of the batch, counted from 0 in every finder.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ticket {}", self.number)
    }
}

/// The tickets of one finder: gives them out and takes them back in the same order. For backends with a queue of their
/// own; [`SyncFinder`](crate::SyncFinder) has one already.
#[derive(Debug)]
pub struct Tickets {
    finder: u64,
    /// The oldest in flight, and the one that is given out next.
    oldest: u64,
    next: u64,
}

impl Tickets {
    /// None in flight, for a finder unlike any other of this process.
    #[expect(clippy::new_without_default, reason = "two defaults would not be equal")]
    pub fn new() -> Self {
        static FINDERS: AtomicU64 = AtomicU64::new(0);
        Tickets { finder: FINDERS.fetch_add(1, Ordering::Relaxed), oldest: 0, next: 0 }
    }

    /// Batches in flight.
    pub fn in_flight(&self) -> usize {
        (self.next - self.oldest) as usize
    }

    /// Nothing, while no batch is in flight.
    ///
    /// # Errors
    /// [`Error::SlotsFull`] otherwise.
    pub fn idle(&self) -> Result<()> {
        self.room(1)
    }

    /// Nothing, while fewer than `slots` batches are in flight.
    ///
    /// # Errors
    /// [`Error::SlotsFull`] otherwise.
    pub fn room(&self, slots: usize) -> Result<()> {
        match self.in_flight() {
            n if n < slots => Ok(()),
            slots => Err(Error::SlotsFull { slots }),
        }
    }

    /// The ticket of a further batch.
    pub fn issue(&mut self) -> Ticket {
        let ticket = Ticket { finder: self.finder, number: self.next };
        self.next += 1;
        ticket
    }

    /// Takes a ticket back: from now on its batch is not in flight.
    ///
    /// # Errors
    /// [`Error::WrongTicket`] when it is another finder's or not the oldest in flight. The error holds the ticket.
    pub fn redeem(&mut self, ticket: Ticket) -> Result<()> {
        if ticket.finder == self.finder && ticket.number == self.oldest && self.in_flight() > 0 {
            self.oldest += 1;
            return Ok(());
        }
        let reason = if ticket.finder != self.finder {
            "was given by another finder: collect it there".into()
        } else if ticket.number < self.oldest {
            "is of a batch that was abandoned: submit its frames again".into()
        } else {
            format!("is not the oldest in flight: collect ticket {} first, or abandon them all", self.oldest)
        };
        Err(Error::WrongTicket { ticket, reason })
    }

    /// Forgets every ticket in flight and says how many there were.
    pub fn abandon(&mut self) -> usize {
        let lost = self.in_flight();
        self.oldest = self.next;
        lost
    }
}
