package surem

import "time"

// State is how SureM stands to us, for /readyz.
type State string

// The states, the gravest that holds is told.
const (
	StateRefused State = "refused" // an account's login or fresh token was refused last
	StateAway    State = "away"    // the last call failed on the way, by time-out or by a 5xx; or a breaker is open
	StateLimited State = "limited" // a 429 holds an account back
	StateOK      State = "ok"
)

// State returns the present state over all accounts whose secret is still known.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.state()
	if state != StateOK {
		return state
	}
	for _, a := range c.accounts {
		if a.limiter.heldFor() > 0 {
			return StateLimited
		}
	}
	return StateOK
}

// state is State without the holds, which end by themselves. The caller holds c.mu.
func (c *Client) state() State {
	for a := range c.refused {
		if _, known := c.o.Secret(a.userCode); known {
			return StateRefused
		}
	}
	if c.away || c.isOpen() {
		return StateAway
	}
	return StateOK
}

// note changes what State is made of, and logs a line when that changes the state.
func (c *Client) note(a *account, why error, change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	if a.loginRefused || a.tokenRefused {
		c.refused[a] = true
	} else {
		delete(c.refused, a)
	}
	state := c.state()
	if state == c.told || state == StateAway && time.Since(c.toldAway) < time.Minute {
		return // where it comes and goes with every call, one pair of lines a minute says so
	}
	c.told = state
	switch state {
	case StateOK:
		c.log.Info().Msg("surem back")
	case StateRefused:
		c.log.Warn().Err(why).Msg("surem refused")
	default:
		c.toldAway = time.Now()
		c.log.Warn().Err(why).Msg("surem away")
	}
}
