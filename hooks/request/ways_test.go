package request

// Kinds of results of the ways below.
const (
	refused = "address refused"
	invalid = "invalid request"
	unknown = "no such host" // Go does not look up numbers
)

// way is a way to reach an address that requests may not reach. In a URL, PORT is
// that of a listener on all addresses of this machine, FRONT the host and port of
// a server that requests may reach, OWN4 and OWN6 are addresses of an interface.
type way struct {
	what, url string
	names     map[string][]string // what the DNS answers
	result    string
}

// name returns what the DNS answers for one name.
func name(n string, addrs ...string) map[string][]string { return map[string][]string{n: addrs} }

// ways is the table of docs/hook-requests.md. A decimal, hexadecimal, octal or
// short address is a name for Go. The DNS answers what a C library would read.
var ways = []way{
	{"address", "http://127.0.0.1:PORT/", nil, refused},
	{"another address of the loopback network", "http://127.200.0.7:PORT/", nil, refused},
	{"name", "http://localhost:PORT/", nil, refused},
	{"name in capitals with a trailing dot", "http://LOCALHOST.:PORT/", name("localhost", "127.0.0.1"), refused},
	{"IPv6", "http://[::1]:PORT/", nil, refused},
	{"IPv6, long", "http://[0000:0000:0000:0000:0000:0000:0000:0001]:PORT/", nil, refused},
	{"unspecified address, which means loopback", "http://0.0.0.0:PORT/", nil, refused},
	{"unspecified IPv6 address", "http://[::]:PORT/", nil, refused},
	{"no host, which means loopback", "http://:PORT/", nil, invalid},
	{"decimal", "http://2130706433:PORT/", name("2130706433", "127.0.0.1"), unknown},
	{"hexadecimal", "http://0x7f000001:PORT/", name("0x7f000001", "127.0.0.1"), refused},
	{"octal", "http://0177.0.0.01:PORT/", name("0177.0.0.01", "127.0.0.1"), unknown},
	{"short", "http://127.1:PORT/", name("127.1", "127.0.0.1"), unknown},
	{"hexadecimal and short", "http://0x7f.1:PORT/", name("0x7f.1", "127.0.0.1"), refused},
	{"address with a trailing dot", "http://127.0.0.1.:PORT/", name("127.0.0.1", "127.0.0.1"), unknown},
	{"full-width digits", "http://１２７.0.0.1:PORT/", nil, refused},
	{"circled digits", "http://①②⑦.0.0.①:PORT/", nil, refused},
	{"ideographic full stops", "http://127。0。0。1:PORT/", nil, refused},
	{"percent-encoded host", "http://%31%32%37.0.0.1:PORT/", nil, invalid},
	{"IPv4-mapped", "http://[::ffff:127.0.0.1]:PORT/", nil, refused},
	{"IPv4-mapped, hexadecimal", "http://[::ffff:7f00:1]:PORT/", nil, refused},
	{"IPv4-compatible", "http://[::127.0.0.1]:PORT/", nil, refused},
	{"IPv4-translated", "http://[::ffff:0:127.0.0.1]:PORT/", nil, refused},
	{"NAT64", "http://[64:ff9b::7f00:1]:PORT/", nil, refused},
	{"NAT64, local prefix", "http://[64:ff9b:1::7f00:1]:PORT/", nil, refused},
	{"6to4", "http://[2002:7f00:1::]:PORT/", nil, refused},
	{"Teredo", "http://[2001:0:7f00:1::80ff:fffe]:PORT/", nil, refused},
	{"zone", "http://[::1%25lo]:PORT/", nil, refused},
	{"zone of an IPv4-mapped address", "http://[::ffff:127.0.0.1%25lo]:PORT/", nil, refused},
	{"another host as user", "http://registry.example@127.0.0.1:PORT/", nil, refused},
	{"another host and port as user and password", "http://registry.example:443@127.0.0.1:PORT/", nil, refused},
	{"backslash before the user", `http://registry.example\@127.0.0.1:PORT/`, nil, invalid},
	{"another host in the fragment", "http://127.0.0.1:PORT/#@registry.example/", nil, refused},
	{"https", "https://127.0.0.1:PORT/", nil, refused},
	{"name whose address is loopback", "http://a.example:PORT/", name("a.example", "127.0.0.1"), refused},
	{"name whose IPv6 address is loopback", "http://a.example:PORT/", name("a.example", "::1"), refused},
	{"name whose IPv6 address is IPv4-mapped", "http://a.example:PORT/", name("a.example", "::ffff:127.0.0.1"), refused},
	{"name with a permitted and a refused address", "http://a.example:PORT/", name("a.example", "127.0.0.1", "::1", "127.0.0.9"), refused},
	{"name whose address changes between two look-ups", "http://a.example:PORT/", name("a.example", "240.0.0.1", "then", "127.0.0.1"), refused},
	{"name whose address changes after a refusal", "http://a.example:PORT/", name("a.example", "127.0.0.1", "then", "10.0.0.1"), refused},
	{"redirect, 302", "http://FRONT/302", nil, "status 302"},
	{"redirect that keeps the method, 307", "http://FRONT/307", nil, "status 307"},
	{"permanent redirect, 308", "http://FRONT/308", nil, "status 308"},
	{"Refresh and Alt-Svc", "http://FRONT/418", nil, "status 418"},
	{"host from a variable of a tenant", "http://${UNTRUSTED}:PORT/", nil, invalid},
	{"user from a variable of a tenant", "http://registry.example${UNTRUSTED_USER}:PORT/", nil, invalid},
	{"URL from a secret", "${SECRET_URL}", nil, refused},
	{"another scheme", "file:///etc/passwd", nil, invalid},
	{"socket of an engine", "unix:///var/run/docker.sock", nil, invalid},

	{"metadata service", "http://169.254.169.254/", nil, refused},
	{"metadata service, decimal", "http://2852039166/", name("2852039166", "169.254.169.254"), unknown},
	{"metadata service, hexadecimal", "http://0xa9fea9fe/", name("0xa9fea9fe", "169.254.169.254"), refused},
	{"metadata service, octal", "http://0251.0376.0251.0376/", name("0251.0376.0251.0376", "169.254.169.254"), unknown},
	{"metadata service, IPv4-mapped", "http://[::ffff:a9fe:a9fe]/", nil, refused},
	{"metadata service, NAT64", "http://[64:ff9b::a9fe:a9fe]/", nil, refused},
	{"metadata service, 6to4", "http://[2002:a9fe:a9fe::]/", nil, refused},
	{"metadata service, name", "http://metadata.google.internal/", name("metadata.google.internal", "169.254.169.254"), refused},
	{"metadata service of AWS, IPv6", "http://[fd00:ec2::254]/", nil, refused},
	{"metadata service of Google Cloud, IPv6", "http://[fd20:ce::254]/", nil, refused},
	{"metadata service of Akamai, IPv6", "http://[fd00:a9fe:a9fe::1]/", nil, refused},
	{"metadata service of Scaleway, IPv6", "http://[fd00:42::42]/", nil, refused},
	{"metadata service of Azure", "http://168.63.129.16/", nil, refused},
	{"metadata service of Alibaba", "http://100.100.100.200/", nil, refused},
	{"metadata service of Oracle", "http://192.0.0.192/", nil, refused},
	{"metadata service of OpenStack, IPv6", "http://[fe80::a9fe:a9fe%25eth0]/", nil, refused},

	{"the server's interface", "http://OWN4:PORT/", nil, refused},
	{"the server's interface, IPv6", "http://[OWN6]:PORT/", nil, refused},
	{"the server's interface, IPv4-mapped", "http://[::ffff:OWN4]:PORT/", nil, refused},
	{"name whose address is the server's", "http://a.example:PORT/", name("a.example", "OWN4"), refused},
	{"the server's load balancer, name", "http://hostler.example:PORT/", name("hostler.example", "10.9.8.7"), refused},
	{"the server's load balancer, address", "http://10.9.8.7:PORT/", name("hostler.example", "10.9.8.7"), refused},

	{"link-local", "http://169.254.1.1:PORT/", nil, refused},
	{"link-local, IPv6", "http://[fe80::1%25lo]:PORT/", nil, refused},
	{"multicast", "http://224.0.0.1:PORT/", nil, refused},
	{"multicast, IPv6", "http://[ff02::1%25lo]:PORT/", nil, refused},
	{"broadcast", "http://255.255.255.255:PORT/", nil, refused},
	{"reserved", "http://240.0.0.1:PORT/", nil, refused},
	{"denied by the server", "http://denied.example:PORT/", name("denied.example", "10.0.0.1"), refused},
	{"denied network", "http://10.66.0.1:PORT/", nil, refused},
}
