package simulator

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

// token is an access token that has been given out.
type token struct {
	userCode string
	expires  time.Time
	uses     int // calls it is still good for; 0 = any number
}

// SetTokenLife sets how long the tokens of later logins live; a login says it in whole
// seconds, at least one.
func (s *Simulator) SetTokenLife(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokenLife = d
}

// RevokeTokens ends every token of an account, or of all accounts when userCode is empty.
func (s *Simulator) RevokeTokens(userCode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoke(userCode, "")
}

// revoke ends an account's tokens but one; s.mu is held.
func (s *Simulator) revoke(userCode, but string) {
	for access, t := range s.tokens {
		if access != but && (userCode == "" || t.userCode == userCode) {
			delete(s.tokens, access)
		}
	}
}

func (s *Simulator) login(w http.ResponseWriter, r *http.Request) {
	var given struct{ UserCode, SecretKey string }
	err := json.NewDecoder(io.LimitReader(r.Body, 64<<10)).Decode(&given)
	s.serve(w, r, ref{operation: Login}, func() *answer {
		if err != nil {
			return refused(http.StatusBadRequest, "A4000", "잘못된 요청입니다.")
		}
		if secret, ok := s.accounts[given.UserCode]; !ok || secret != given.SecretKey {
			// A wrong secret looks like a caller whose address is not on the list.
			return &answer{status: http.StatusForbidden, body: []byte(forbiddenPage), contentType: "text/html", refused: true}
		}
		access := rand.Text()
		t := &token{userCode: given.UserCode, expires: time.Now().Add(s.tokenLife)}
		s.tokens[access] = t
		a := success(encode(map[string]any{"accessToken": access, "expiresIn": max(1, int(s.tokenLife.Seconds()))}))
		a.token, a.endOthers = t, func() { s.revoke(t.userCode, access) }
		return a
	})
}

// refusal checks a call's token and that its account owns the sender key. It returns the
// answer that refuses the call, or nil. s.mu is held.
func (s *Simulator) refusal(r *http.Request, senderKey string) *answer {
	access, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	t, ok := s.tokens[access]
	if !ok {
		return refused(http.StatusUnauthorized, "A1001", "인증 토큰이 유효하지 않습니다.")
	}
	if time.Now().After(t.expires) {
		delete(s.tokens, access)
		return refused(http.StatusUnauthorized, "A1006", "인증 토큰이 만료되었습니다.")
	}
	if t.uses--; t.uses == 0 {
		delete(s.tokens, access)
	}
	own, ok := s.senders[senderKey]
	if !ok || own.userCode != t.userCode {
		return refused(http.StatusOK, "A2001", "등록되지 않은 발신프로필입니다.")
	}
	return nil
}

// refused is a failure that no fault is spent on.
func refused(status int, code, message string) *answer {
	a := failure(status, code, message)
	a.refused = true
	return a
}

const forbiddenPage = "<!DOCTYPE html>\n<html><head><title>403 Forbidden</title></head>\n<body><center><h1>403 Forbidden</h1></center><hr></body></html>\n"
