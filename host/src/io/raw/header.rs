//! The header in front of every image of an SLS raw data file.

use super::boards::Board;

/// Which detector wrote a raw file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detector {
    /// JUNGFRAU: 512 x 1024 pixels a module, 14 bits of charge under 2 bits of gain.
    Jungfrau,
    /// MÖNCH read by its own firmware: 400 x 400 pixels a module, row by row.
    Moench,
    /// A MÖNCH read by a chip test board.
    Board(Board),
}

impl Detector {
    /// The name in a master file.
    pub const fn name(self) -> &'static str {
        match self {
            Detector::Jungfrau => "Jungfrau",
            Detector::Moench => "Moench",
            Detector::Board(_) => "ChipTestBoard",
        }
    }

    /// The number in a frame header.
    pub const fn header_code(self) -> u8 {
        match self {
            Detector::Jungfrau => 3,
            Detector::Board(_) => 4,
            Detector::Moench => 5,
        }
    }

    /// Bytes of image that one UDP packet carries, over a 10 Gb/s link.
    ///
    /// # Source
    /// The receiver's table of detectors in slsDetectorPackage.
    pub const fn packet_bytes(self) -> usize {
        match self {
            Detector::Jungfrau => 8192,
            Detector::Moench => 6400,
            Detector::Board(_) => 8144,
        }
    }
}

/// How a file describes each of its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// SLS raw: [`Header`].
    Sls,
    /// JUNGFRAU `.dat`: the number of the frame and its bunch, `u64` each.
    Dat,
}

impl Form {
    /// Bytes in front of an image.
    pub const fn bytes(self) -> usize {
        match self {
            Form::Sls => Header::BYTES,
            Form::Dat => 16,
        }
    }

    /// Reads what is in front of an image.
    pub fn parse(self, bytes: &[u8]) -> Header {
        let mut whole = [0; Header::BYTES];
        match self {
            Form::Sls => whole.copy_from_slice(bytes),
            Form::Dat => {
                whole[..8].copy_from_slice(&bytes[..8]);
                whole[16..24].copy_from_slice(&bytes[8..16]);
            }
        }
        Header::parse(&whole)
    }
}

/// The fields of a header that mean something to the finder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the frame; ports and modules are matched by it.
    pub frame: u64,
    /// Exposure in units of 100 ns.
    pub exposure_100ns: u32,
    /// Packets that the receiver caught.
    pub packets: u32,
    /// Detector dependent, a bunch number or nothing.
    pub bunch: u64,
    /// Time in units of 100 ns since the detector started.
    pub timestamp_100ns: u64,
    /// Number of the module.
    pub module: u16,
    /// Row of the port in the detector, in ports.
    pub row: u16,
    /// Column of the port in the detector, in ports.
    pub column: u16,
    /// Detector dependent: gain and storage cell of a JUNGFRAU, see [`Header::storage_cell`].
    pub spec3: u32,
    /// Which detector: 1 Eiger, 3 Jungfrau, 4 chip test board, 5 Moench, 6 Mythen3, 7 Gotthard2.
    pub detector: u8,
    /// Version of the header.
    pub version: u8,
    /// One bit for every packet that was caught.
    pub caught: PacketSet,
}

/// A set of packets of one image, 512 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSet([u64; 8]);

impl PacketSet {
    /// The largest number of packets of an image.
    pub const CAPACITY: usize = 512;

    /// No packet.
    pub const EMPTY: PacketSet = PacketSet([0; 8]);

    /// The first `n` packets.
    pub fn first(n: usize) -> Self {
        let mut set = PacketSet::EMPTY;
        for (k, word) in set.0.iter_mut().enumerate() {
            *word = match n.saturating_sub(k * 64) {
                0 => 0,
                m if m >= 64 => u64::MAX,
                m => (1 << m) - 1,
            };
        }
        set
    }

    /// Whether the packet is in the set.
    pub fn contains(&self, packet: usize) -> bool {
        packet < Self::CAPACITY && self.0[packet / 64] >> (packet % 64) & 1 == 1
    }

    /// Takes a packet out.
    pub fn remove(&mut self, packet: usize) {
        if packet < Self::CAPACITY {
            self.0[packet / 64] &= !(1 << (packet % 64));
        }
    }

    /// How many of the first `n` packets are in the set.
    pub fn count_below(&self, n: usize) -> usize {
        let first = PacketSet::first(n);
        self.0.iter().zip(first.0).map(|(a, b)| (a & b).count_ones() as usize).sum()
    }

    /// One more than the highest packet in the set, 0 when it is empty.
    pub fn end(&self) -> usize {
        let top = self.0.iter().rposition(|w| *w != 0);
        top.map_or(0, |k| k * 64 + 64 - self.0[k].leading_zeros() as usize)
    }
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = 112;

    /// Reads a header. Every pattern of bits is one.
    pub fn parse(b: &[u8; Self::BYTES]) -> Header {
        let u16_at = |at: usize| u16::from_le_bytes([b[at], b[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        Header {
            frame: u64_at(0),
            exposure_100ns: u32_at(8),
            packets: u32_at(12),
            bunch: u64_at(16),
            timestamp_100ns: u64_at(24),
            module: u16_at(32),
            row: u16_at(34),
            column: u16_at(36),
            spec3: u32_at(40),
            detector: b[46],
            version: b[47],
            caught: PacketSet(std::array::from_fn(|k| u64_at(48 + 8 * k))),
        }
    }

    /// Storage cell of a JUNGFRAU that took the frame.
    pub fn storage_cell(&self) -> u8 {
        (self.spec3 >> 8 & 0xf) as u8
    }

    /// The bytes of the header.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut b = [0; Self::BYTES];
        b[0..8].copy_from_slice(&self.frame.to_le_bytes());
        b[8..12].copy_from_slice(&self.exposure_100ns.to_le_bytes());
        b[12..16].copy_from_slice(&self.packets.to_le_bytes());
        b[16..24].copy_from_slice(&self.bunch.to_le_bytes());
        b[24..32].copy_from_slice(&self.timestamp_100ns.to_le_bytes());
        b[32..34].copy_from_slice(&self.module.to_le_bytes());
        b[34..36].copy_from_slice(&self.row.to_le_bytes());
        b[36..38].copy_from_slice(&self.column.to_le_bytes());
        b[40..44].copy_from_slice(&self.spec3.to_le_bytes());
        b[46] = self.detector;
        b[47] = self.version;
        for (word, to) in self.caught.0.iter().zip(b[48..].chunks_exact_mut(8)) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_way_through_bytes() {
        let header = Header {
            frame: 0x0102_0304_0506_0708,
            exposure_100ns: 100,
            packets: 127,
            bunch: 9,
            timestamp_100ns: u64::MAX - 1,
            module: 3,
            row: 1,
            column: 2,
            spec3: 0x1101,
            detector: 3,
            version: 2,
            caught: PacketSet::first(127),
        };
        assert_eq!(Header::parse(&header.to_bytes()), header);
        assert_eq!(header.to_bytes()[..8], [8, 7, 6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn packet_sets_count() {
        for n in [0, 1, 63, 64, 65, 128, 511, 512] {
            let set = PacketSet::first(n);
            assert_eq!((set.count_below(512), set.end()), (n, n));
        }
        let mut set = PacketSet::first(128);
        set.remove(127);
        set.remove(5);
        assert_eq!((set.count_below(128), set.count_below(6), set.end()), (126, 5, 127));
        assert!(set.contains(6) && !set.contains(5) && !set.contains(600));
        assert!(PacketSet::first(512).contains(511) && !PacketSet::first(512).contains(512));
    }
}
