// Package redisconn reaches the Redis that the settings name: one server, the primary that
// Sentinels tell of, or a Cluster; plainly or by TLS.
//
// Whichever it is, the client has the bounds that this program's promises need: it repeats no
// command whose reply was lost (a repeated script is not what the fence was proved for), obeys
// deadlines, tells failures quickly, and reads from primaries only.
package redisconn

import (
	"cmp"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	dialTimeout = time.Second
	// ioTimeout bounds one command that has no earlier deadline.
	ioTimeout = 5 * time.Second
	// maxRedirects is how often a command of a Cluster goes where the answer (MOVED, ASK,
	// TRYAGAIN, READONLY) sends it. Such an answer means that it was not executed.
	maxRedirects = 3
	// protocol is RESP's version. Of the third nothing is used here, and go-redis looks for
	// messages before each of its replies.
	protocol = 2
	// readBuffer holds what a pass reads of a usual hospital, so that it comes with one system call.
	readBuffer = 64 << 10
)

// Mode is the kind of a Redis.
type Mode string

// The modes.
const (
	Single   Mode = "single"
	Sentinel Mode = "sentinel"
	Cluster  Mode = "cluster"
)

// Server is a Redis to connect to. Parse makes it.
type Server struct {
	single   *redis.Options // one of the three is there
	sentinel *redis.FailoverOptions
	cluster  *redis.ClusterOptions
	files    Files
}

// Connect returns a client. It does not wait for Redis to be there.
func (s *Server) Connect() redis.UniversalClient {
	switch {
	case s.cluster != nil:
		o := *s.cluster
		o.Dialer = s.files.dialer(o.TLSConfig)
		return NewCluster(&o)
	case s.sentinel != nil:
		o := *s.sentinel
		o.Dialer = s.files.dialer(o.TLSConfig)
		return NewSentinel(&o)
	default:
		o := *s.single
		o.Dialer = s.files.dialer(o.TLSConfig)
		return NewSingle(&o)
	}
}

// NewSingle returns a client of one server, with this program's bounds instead of o's.
func NewSingle(o *redis.Options) *redis.Client {
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = dialTimeout, ioTimeout, ioTimeout
	o.ContextTimeoutEnabled = true
	o.PipelinePoolSize = -1
	o.Protocol, o.ReadBufferSize = cmp.Or(o.Protocol, protocol), readBuffer
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(o)
}

// NewSentinel returns a client of the primary that the Sentinels tell of, likewise.
func NewSentinel(o *redis.FailoverOptions) *redis.Client {
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = dialTimeout, ioTimeout, ioTimeout
	o.ContextTimeoutEnabled = true
	o.PipelinePoolSize = -1
	o.Protocol, o.ReadBufferSize = cmp.Or(o.Protocol, protocol), readBuffer
	o.DisableIdentity = true
	rdb := redis.NewFailoverClient(o)
	rdb.AddHook(sentinels{o.MasterName})
	return rdb
}

// NewCluster returns a client of a Cluster, likewise.
func NewCluster(o *redis.ClusterOptions) *redis.ClusterClient {
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = dialTimeout, ioTimeout, ioTimeout
	o.ContextTimeoutEnabled = true
	o.PipelinePoolSize = -1
	o.Protocol, o.ReadBufferSize = cmp.Or(o.Protocol, protocol), readBuffer
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.MaxRedirects = maxRedirects
	o.DisableRoutingPolicies = true // they ask for COMMAND, and match commands by their Go type
	rdb := redis.NewClusterClient(o)
	rdb.AddHook(onceOnly{rdb})
	return rdb
}
