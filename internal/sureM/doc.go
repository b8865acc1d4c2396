// Package surem reads Alimtalk templates from SureM: a login per account, the summaries
// of a sender key, and one template's detail.
//
// It promises that an answer is taken for a success only when SureM said so (HTTP 2xx and
// code A0000), that a list is called complete only when SureM said or showed its end, that
// a document travels unchanged to the byte, and that no call outlives its context, its
// time-out or its bounds. It keeps each account within its rate of calls in this process;
// other processes are not counted.
package surem
