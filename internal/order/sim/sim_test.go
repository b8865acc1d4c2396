package main

import (
	"testing"
	"time"
)

func TestTheOrderPaysOff(t *testing.T) {
	c := &cell{hospitals: 1000, rate: 1, outcomes: make([]outcome, len(strategies))}
	for i, s := range strategies {
		if s.name == "this" || s.name == "round robin" {
			c.outcomes[i] = simulate(c.hospitals, c.rate, s, 0)
		}
	}
	if v := c.verdict(); !(v.reviewP99 <= .25 && v.reviewMean <= .3 && v.stale <= .1) {
		t.Errorf("%+v", v)
	}
}

func TestOfficeTime(t *testing.T) {
	const h = time.Hour
	for _, c := range []struct{ from, d, want time.Duration }{
		{0, 0, 9 * h},
		{0, 2 * h, 11 * h},
		{10 * h, 8 * h, 18 * h},
		{17 * h, 2 * h, 34 * h},                   // to Tuesday, 10 o'clock
		{(4*24 + 17) * h, 2 * h, (7*24 + 10) * h}, // over the weekend
		{5 * 24 * h, 20 * h, (9*24 + 11) * h},
	} {
		if got := addOffice(c.from, c.d); got != c.want {
			t.Errorf("%v of office time after %v is at %v, want %v", c.d, c.from, got, c.want)
		}
	}
}
