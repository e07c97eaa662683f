package request

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"code.dny.dev/ssrf"
)

// ErrRefused indicates that requests may not be sent to an address.
var ErrRefused = errors.New("address refused")

// metadata are services of cloud providers that give credentials to machines,
// and that have addresses like those of other machines.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"),       // Azure
	netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // Oracle
	netip.MustParsePrefix("fd00:ec2::/32"),          // AWS
	netip.MustParsePrefix("fd00:42::42/128"),        // Scaleway
	netip.MustParsePrefix("fd00:a9fe:a9fe::1/128"),  // Akamai (Linode)
	netip.MustParsePrefix("fd20:ce::254/128"),       // Google Cloud
	netip.MustParsePrefix("100.100.100.200/32"),     // Alibaba
	netip.MustParsePrefix("169.254.169.254/32"),     // most of them
	netip.MustParsePrefix("fe80::a9fe:a9fe/128"),    // OpenStack
}

// public accepts the addresses that IANA lists as globally reachable, and those
// of private networks.
var public = ssrf.New(ssrf.WithAnyPort(),
	ssrf.WithAllowedV4Prefixes(
		netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"),
	),
	ssrf.WithAllowedV6Prefixes(netip.MustParsePrefix("fc00::/7")))

// addresses decides which addresses requests may be sent to.
type addresses struct {
	allow, deny, own rules
	resolver         *net.Resolver
	interfaces       func() ([]net.Addr, error) // of this machine
}

// check returns nil if a request for host may be sent to addr, and ErrRefused if
// it may not. With another error it is unknown, and another attempt may know it.
// If listed is set, allow must have the host or the address.
//
// An IPv6 address that stands for an IPv4 address is judged as both.
func (a *addresses) check(ctx context.Context, host string, addr netip.Addr, listed bool) error {
	addr = addr.WithZone("").Unmap()
	embedded := embeddedIPv4(addr)
	if a.deny.hasHost(host) || a.deny.hasAny(addr, embedded) {
		return fmt.Errorf("%w: %s (%s) is denied by the server", ErrRefused, addr, host)
	}
	if a.allow.hasHost(host) {
		return nil
	}
	if !a.allow.hasAny(addr) {
		if listed {
			return fmt.Errorf("%w: secrets are sent to %s (%s) with https only, or if the server allows the address", ErrRefused, addr, host)
		}
		return a.checkPublic(ctx, host, addr)
	}
	if embedded.IsValid() && !a.allow.hasAny(embedded) {
		return a.checkPublic(ctx, host, embedded)
	}
	return nil
}

// checkPublic returns nil if addr is global or of a private network, and no
// address of this server or of a metadata service.
func (a *addresses) checkPublic(ctx context.Context, host string, addr netip.Addr) error {
	if isOwn, err := a.isOwn(ctx, host, addr); err != nil {
		return fmt.Errorf("list the server's own addresses: %w", err)
	} else if isOwn {
		return fmt.Errorf("%w: %s (%s) is the server's own", ErrRefused, addr, host)
	}
	if slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return fmt.Errorf("%w: %s (%s) is a metadata service", ErrRefused, addr, host)
	}
	if public.SafeAddr(addr) != nil {
		return fmt.Errorf("%w: %s (%s) is neither global nor of a private network", ErrRefused, addr, host)
	}
	return nil
}

// isOwn reports whether addr belongs to an interface of this machine, or to a
// name or a network of own.
func (a *addresses) isOwn(ctx context.Context, host string, addr netip.Addr) (bool, error) {
	if a.own.hasHost(host) || a.own.hasAny(addr) {
		return true, nil
	}
	interfaces, err := a.interfaces()
	if err != nil {
		return false, err
	}
	for _, i := range interfaces {
		if p, err := netip.ParsePrefix(i.String()); err == nil && p.Addr().WithZone("").Unmap() == addr {
			return true, nil
		}
	}
	for _, name := range a.own.hosts {
		found, err := a.resolver.LookupNetIP(ctx, "ip", name)
		if e, ok := errors.AsType[*net.DNSError](err); err != nil && !(ok && e.IsNotFound) {
			return false, err
		}
		if slices.ContainsFunc(found, func(f netip.Addr) bool { return f.WithZone("").Unmap() == addr }) {
			return true, nil
		}
	}
	return false, nil
}

// translated are networks of IPv6 addresses that stand for an IPv4 address, and
// the index of its first byte.
var translated = []struct {
	prefix netip.Prefix
	index  int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64, RFC 6052
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},  // NAT64, RFC 8215
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4, RFC 3056
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // IPv4-translated, RFC 2765
}

// embeddedIPv4 returns the IPv4 address that addr stands for, or the zero Addr.
func embeddedIPv4(addr netip.Addr) netip.Addr {
	for _, t := range translated {
		if t.prefix.Contains(addr) {
			b := addr.As16()
			return netip.AddrFrom4([4]byte(b[t.index : t.index+4]))
		}
	}
	return netip.Addr{}
}

// rules are hosts and networks.
type rules struct {
	hosts    []string // in lower case; *.example.com has all names below example.com
	prefixes []netip.Prefix
}

// parseRules parses host names, *.DOMAIN, addresses and CIDRs.
func parseRules(list []string) (rules, error) {
	var r rules
	for _, text := range list {
		text = strings.ToLower(strings.TrimSpace(text))
		bare := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
		switch addr, err := netip.ParseAddr(bare); {
		case err == nil:
			addr = addr.WithZone("").Unmap()
			r.prefixes = append(r.prefixes, netip.PrefixFrom(addr, addr.BitLen()))
		case strings.Contains(text, "/"):
			p, err := netip.ParsePrefix(text)
			if err != nil || p.Addr().Is4In6() {
				return rules{}, fmt.Errorf("%q is not a CIDR such as 10.0.0.0/8", text)
			}
			r.prefixes = append(r.prefixes, p.Masked())
		default:
			name := strings.TrimPrefix(text, "*.")
			if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
				return rules{}, fmt.Errorf("%q is not a host name, *.DOMAIN, an address or a CIDR", text)
			}
			r.hosts = append(r.hosts, strings.TrimSuffix(text, "."))
		}
	}
	return r, nil
}

// hasHost reports whether a name is one of the hosts.
func (r rules) hasHost(name string) bool {
	name = hostName(name)
	return slices.ContainsFunc(r.hosts, func(h string) bool {
		domain, below := strings.CutPrefix(h, "*")
		return h == name || below && strings.HasSuffix(name, domain) && len(name) > len(domain)
	})
}

// hasAny reports whether one of the addresses is in the networks.
func (r rules) hasAny(addrs ...netip.Addr) bool {
	return slices.ContainsFunc(r.prefixes, func(p netip.Prefix) bool {
		return slices.ContainsFunc(addrs, p.Contains)
	})
}
