package surem

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/templates"
)

// Detail fetches one template of a hospital. The error is ErrNotFound when SureM says that
// it has none, an *Error for any other failure there, a *LimitError when no slot is free
// before ctx's deadline, and else wraps the cause of ctx's end.
func (c *Client) Detail(ctx context.Context, h hospitals.Hospital, code string) (templates.Document, error) {
	if err := templates.CheckCode(code); err != nil {
		return templates.Document{}, fmt.Errorf("detail: %w", err)
	}
	path, err := c.o.DetailPath.Expand(map[string]any{"templateCode": code, "senderKey": h.SenderKey.Reveal()})
	if err != nil {
		return templates.Document{}, fmt.Errorf("detail: %w", err)
	}
	var doc templates.Document
	err = c.call(ctx, c.account(h.UserCode), &request{
		op: opDetail, url: c.base + path,
		read: func(data gjson.Result) (err error) {
			doc, err = readDetail(data, code)
			return err
		},
	})
	return doc, err
}

// readDetail reads the data of a detail's answer, which must be the template that was asked
// for and say its status.
func readDetail(data gjson.Result, code string) (templates.Document, error) {
	own, codes := templates.Member(data, "templateCode")
	status, statuses := templates.Member(data, "inspectionStatus")
	switch {
	case !data.IsObject():
		return templates.Document{}, errors.New("the detail's data is no object")
	case codes != 1 || own.Type != gjson.String || own.Str != code:
		return templates.Document{}, errors.New("the detail's templateCode is not the one asked for")
	case statuses != 1 || isBlank(status):
		return templates.Document{}, errors.New("the detail has no single inspectionStatus")
	}
	return templates.Document{Raw: data.Raw, Status: templates.Status(status.Str)}, nil
}
