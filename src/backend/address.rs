//! Which network addresses a backend may be at, so that a name in a file cannot lead into the machine's own network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::operation::Private;

/// Why the address must not be called; `None` if it may.
pub(super) fn refusal(ip: IpAddr, private: Private) -> Option<&'static str> {
    let ip = ip.to_canonical();
    let ip = match ip {
        IpAddr::V6(v6) => embedded(v6).map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    };
    let (never, inside) = match ip {
        IpAddr::V4(v4) => (never_v4(v4), private_v4(v4)),
        IpAddr::V6(v6) => (never_v6(v6), private_v6(v6)),
    };
    if never {
        return Some("is a link-local, metadata, multicast or reserved address, which is never called");
    }
    (inside && private == Private::Refused)
        .then_some("is a private or loopback address; if the backend really is there, set `allow_private = true` in its file")
}

fn never_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    a == 0
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || ip.is_documentation()
        || a >= 240
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && (b & 0xFE) == 18)
        || ip == Ipv4Addr::new(100, 100, 100, 200)
        || ip == Ipv4Addr::new(168, 63, 129, 16)
}

fn private_v4(ip: Ipv4Addr) -> bool {
    let [a, b, _, _] = ip.octets();
    ip.is_private() || ip.is_loopback() || (a == 100 && (b & 0xC0) == 64)
}

fn never_v6(ip: Ipv6Addr) -> bool {
    let [a, b, ..] = ip.segments();
    ip.is_unspecified()
        || ip.is_multicast()
        || (a & 0xFFC0) == 0xFE80
        || (a & 0xFFC0) == 0xFEC0
        || (a, b) == (0x2001, 0x0DB8)
        || ip == Ipv6Addr::new(0xFD00, 0x0EC2, 0, 0, 0, 0, 0, 0x0254)
}

fn private_v6(ip: Ipv6Addr) -> bool {
    let [a, ..] = ip.segments();
    ip.is_loopback() || (a & 0xFE00) == 0xFC00
}

/// The IPv4 address inside a NAT64, 6to4 or IPv4-compatible one.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match ip.segments() {
        [0x64, 0xFF9B, 0, 0, 0, 0, high, low] => Some(from(high, low)),
        [0x2002, high, low, ..] => Some(from(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(from(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, private: Private) -> bool {
        refusal(text.parse().unwrap(), private).is_some()
    }

    #[test]
    fn metadata_and_link_local_addresses_are_never_called() {
        for ip in [
            "169.254.169.254",
            "169.254.170.2",
            "100.100.100.200",
            "fd00:ec2::254",
            "fe80::1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
        ] {
            assert!(refused(ip, Private::Allowed), "{ip}");
        }
    }

    #[test]
    fn private_addresses_are_called_only_where_the_file_allows_them() {
        for ip in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "::1",
            "fd12::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
        ] {
            assert!(refused(ip, Private::Refused), "{ip}");
            assert!(!refused(ip, Private::Allowed), "{ip}");
        }
        for ip in ["8.8.8.8", "2606:4700::1111"] {
            assert!(!refused(ip, Private::Refused), "{ip}");
        }
    }
}
