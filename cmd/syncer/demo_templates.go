package main

import (
	"strings"

	"alimtalk-syncer/internal/sureM/simulator"
)

// clinic is one of the demo's hospitals.
type clinic struct {
	id, senderKey              string
	name, phone, address, site string
}

var clinics = []clinic{
	{"H001", "demo-sender-H001", "한빛내과의원", "02-555-0123", "서울시 성동구 왕십리로 21, 3층", "hanbit-clinic.example"},
	{"H002", "demo-sender-H002", "다온소아청소년과의원", "031-555-0177", "경기도 성남시 분당구 정자로 8, 2층", "daon-kids.example"},
	{"H003", "demo-sender-H003", "맑은샘가정의학과의원", "051-555-0145", "부산시 해운대구 센텀로 40, 5층", "malgeunsaem.example"},
}

// message is a template before a clinic has put its name to it.
type message struct {
	code, name, status string
	text               string
	buttons            []simulator.Button
}

func link(name, path string) simulator.Button {
	return simulator.Button{Name: name, LinkType: "WL", LinkMo: "https://@홈페이지/" + path, LinkPc: "https://@홈페이지/" + path}
}

func ask(name string) simulator.Button { return simulator.Button{Name: name, LinkType: "BK"} }

// template is the message as this clinic has registered it.
func (c clinic) template(m message) simulator.Template {
	own := strings.NewReplacer("@병원", c.name, "@전화", c.phone, "@주소", c.address, "@홈페이지", c.site, "\n", "\r\n").Replace
	t := simulator.Template{
		Code: m.code, Name: m.name, InspectionStatus: m.status, Status: "R",
		Content: own(m.text), MessageType: "EX", CategoryCode: "005003",
		Extra: own("※ 본 메시지는 @병원에 연락처를 남기신 분께 발송되는 정보성 안내입니다.\n대표전화 @전화"),
	}
	for i, b := range m.buttons {
		b.Ordering, b.LinkMo, b.LinkPc = i+1, own(b.LinkMo), own(b.LinkPc)
		t.Buttons = append(t.Buttons, b)
	}
	return t
}

// Every line break is CRLF once registered, and blanks and no-break spaces stay: Kakao
// compares a message with its template to the character.
var messages = []message{
	{"APPT_CONFIRM", "예약 확정 안내", "REQUESTED", `[@병원] 예약 확정 안내

#{고객명}님, 안녕하세요.
@병원입니다.
신청하신 진료 예약이 아래와 같이 확정되었습니다.

▶ 예약일시 : #{예약일시}
▶ 진료과목 : #{진료과목}
▶ 담당의사 : #{의사명} 원장
▶ 오시는 곳 : @주소

※ 접수와 본인확인을 위해 예약시간 10분 전까지 도착해 주세요.
※ 건강보험 적용을 받으시려면 신분증(주민등록증, 운전면허증, 모바일 신분증 등)을 꼭 지참해 주시기 바랍니다.
※ 예약 변경이나 취소는 예약일 하루 전 18시까지 가능합니다.

감사합니다.`, []simulator.Button{link("예약 확인하기", "booking/#{예약번호}"), link("찾아오시는 길", "map")}},

	{"APPT_CHANGE", "예약 변경 안내", "REQUESTED", `[@병원] 예약 변경 안내

#{고객명}님, 요청하신 대로 진료 예약이 변경되었습니다.

■ 변경 전 : #{이전예약일시}
■ 변경 후 : #{예약일시}
■ 담당의사 : #{의사명} 원장

변경하신 적이 없거나 시간이 맞지 않으시면 아래 버튼을 누르시거나 @전화 번호로 연락해 주세요.
다시 변경하실 경우 원하시는 시간에 예약이 어려울 수 있는 점 양해 부탁드립니다.

※ 예약시간보다 20분 이상 늦으시면 대기 순서가 뒤로 조정될 수 있습니다.`, []simulator.Button{link("예약 다시 변경하기", "booking/#{예약번호}/edit"), ask("상담원 연결")}},

	{"APPT_CANCEL", "예약 취소 안내", "APPROVED", `[@병원] 예약 취소 안내

#{고객명}님, 아래 진료 예약이 정상적으로 취소되었습니다.

■ 취소된 예약 : #{예약일시}
■ 진료과목 : #{진료과목}
■ 취소 접수 : #{취소일시}

예약금을 결제하신 경우 결제하신 수단으로 영업일 기준 3~5일 이내에 환불됩니다.
다시 진료가 필요하시면 언제든지 예약해 주세요. 빠른 쾌유를 바랍니다.`, []simulator.Button{link("다시 예약하기", "booking")}},

	{"APPT_REMIND", "진료 하루 전 안내", "APPROVED", `#{고객명}님, 내일은 @병원 진료 예약일입니다.

▷ 일시 : #{예약일시}
▷ 진료 : #{진료과목} / #{의사명} 원장
▷ 준비 : #{준비사항}

38도 이상의 발열이나 기침이 있으시면 내원 전에 꼭 전화(@전화)로 알려 주세요.
건물 주차장은 2시간까지 무료이며, 오전에는 혼잡하니 대중교통 이용을 부탁드립니다.

오시기 어려우면 아래에서 미리 알려 주시면 다른 환자분께 큰 도움이 됩니다.`, []simulator.Button{ask("예정대로 방문"), link("예약 변경·취소", "booking/#{예약번호}")}},

	{"CHECKUP_PREP", "건강검진 준비사항 안내", "REGISTERED", `[@병원] 건강검진 예약 및 준비사항 안내

#{고객명}님의 건강검진이 예약되었습니다.

● 검진일시 : #{검진일시}
● 검진항목 : #{검진항목}

<검진 전 주의사항>
1. 검진 전날 저녁 식사는 19시 이전에 가볍게 드시고, 21시 이후에는 물을 포함하여 금식해 주세요.
2. 혈압약은 검진 당일 새벽에 소량의 물과 함께 복용하시고, 당뇨약과 인슐린은 복용하지 마세요.
3. 아스피린 & 항응고제를 복용 중이시면 반드시 담당 의료진과 미리 상의해 주세요.
4. 수면내시경을 받으시는 분은 당일 운전을 하실 수 없으니 보호자와 함께 오시기 바랍니다.
5. 임신 중이거나 임신 가능성이 있는 분은 방사선 촬영 전에 꼭 말씀해 주세요.

문진표는 미리 작성하시면 대기시간을 줄일 수 있습니다.`, []simulator.Button{link("문진표 작성하기", "checkup/#{검진번호}/form"), link("주의사항 자세히 보기", "checkup/guide"), ask("검진 문의")}},

	{"CHECKUP_RESULT", "건강검진 결과 안내", "REQUESTED", `[@병원] 건강검진 결과 안내

#{고객명}님, 안녕하세요.
#{검진일}에 받으신 건강검진 결과가 나왔습니다.

아래 버튼에서 본인확인 후 결과지를 보실 수 있으며, 결과지는 발송일로부터 90일 동안 조회하실 수 있습니다.

■ 검진번호 : #{검진번호}
■ 종합소견 : 결과지에서 확인
■ 재진 권고 : #{재진여부}

※ 추가 검사나 상담이 필요하신 분께는 담당 간호사가 따로 연락드립니다.
※ 개인정보 보호를 위해 결과는 메시지로 알려 드리지 않습니다.`, []simulator.Button{link("결과 확인하기", "checkup/#{검진번호}/result"), link("결과 상담 예약", "booking")}},

	{"VISIT_GUIDE", "첫 진료 안내", "APPROVED", `[@병원] 첫 진료 안내

#{고객명}님, @병원을 찾아 주셔서 감사합니다.
첫 진료를 위해 아래 내용을 확인해 주세요.

1. 준비물 : 신분증, 복용 중인 약 또는 처방전, (의뢰를 받으신 경우) 진료의뢰서
2. 접수 : 안내데스크 또는 무인접수기
3. 진료시간 : 평일 09:00~18:30, 토요일 09:00~13:00 (점심시간 13:00~14:00)
4. 주소 : @주소

미성년자는 보호자와 함께 방문해 주시고, 부득이한 경우 보호자 동의서를 지참해 주세요.`, []simulator.Button{link("문진표 미리 작성", "first-visit"), link("찾아오시는 길", "map")}},

	{"PAYMENT_DONE", "진료비 수납 안내", "APPROVED", `[@병원] 진료비 수납 안내

#{고객명}님, 진료비 수납이 완료되었습니다.

- 진료일자 : #{진료일자}
- 진료과목 : #{진료과목}
- 총 진료비 : #{총진료비}원
- 공단부담금 : #{공단부담금}원
- 본인부담금 : #{본인부담금}원 (#{결제수단})

진료비 세부내역서와 영수증은 아래 버튼에서 내려받으실 수 있으며, 실손보험 청구에 필요한 서류는 창구 또는 전화(@전화)로 요청해 주세요.`, []simulator.Button{link("영수증 보기", "receipt/#{수납번호}"), link("실손보험 청구 서류", "documents")}},

	{"VACCINE_DUE", "예방접종 시기 안내", "REQUESTED", `[@병원] 예방접종 시기 안내

#{고객명}님(보호자님), 아래 예방접종을 받으실 시기가 되었습니다.

◆ 접종명 : #{접종명} #{차수}차
◆ 권장시기 : #{권장시작일} ~ #{권장종료일}
◆ 비용 : #{비용안내}

접종 당일에는 몸 상태가 좋은 오전 시간에 방문해 주시고, 예방접종수첩과 신분증을 지참해 주세요.
최근 한 달 이내에 다른 백신을 맞으셨거나 달걀, 약물 등에 알레르기가 있으시면 미리 말씀해 주시기 바랍니다.`, []simulator.Button{link("접종 예약하기", "vaccine"), ask("접종 문의")}},

	{"VACCINE_DONE", "접종 후 주의사항 안내", "REGISTERED", `[@병원] 접종 후 주의사항 안내

#{고객명}님, 오늘 #{접종명} #{차수}차 접종을 받으셨습니다.

· 접종 후 20~30분은 병원에 머무르며 상태를 살펴 주세요.
· 접종 부위는 깨끗이 하고 문지르지 마세요.
· 당일 목욕과 격한 운동, 음주는 피해 주세요.
· 미열이나 접종 부위의 통증은 대개 2~3일 안에 좋아집니다.

39도 이상의 고열, 호흡곤란, 두드러기, 경련이 있으면 바로 119에 연락하시거나 가까운 응급실로 가시기 바랍니다.

다음 접종일 : #{다음접종일}`, []simulator.Button{link("접종 내역 보기", "vaccine/history")}},

	{"MEDICATION", "복약 안내", "REJECTED", `[@병원] 복약 안내

#{고객명}님, 처방받으신 약의 복용 방법을 안내드립니다.

○ 처방일 : #{처방일} (#{투약일수}일분)
○ 복용법 : #{복용법}
○ 주의사항 : #{주의사항}

증상이 좋아지더라도 임의로 중단하지 마시고, 복용을 잊으신 경우 생각난 즉시 드시되 다음 복용시간이 가까우면 한 번 건너뛰세요. 한꺼번에 두 배로 드시면 안 됩니다.
발진, 어지러움 등 불편한 증상이 생기면 복용을 멈추고 @전화 번호로 문의해 주세요.

다음 진료 예정일은 #{다음진료일}입니다.`, []simulator.Button{link("다음 진료 예약", "booking"), ask("복약 상담")}},

	{"CLOSED_DAYS", "휴진 안내", "APPROVED", `[@병원] 휴진 안내

#{고객명}님, 예약하신 날짜의 진료 일정이 변경되어 안내드립니다.

■ 휴진기간 : #{휴진기간}
■ 사유 : #{휴진사유}
■ 진료재개 : #{진료재개일}

휴진으로 불편을 드려 죄송합니다. 해당 기간에 예약하신 분은 아래 버튼에서 다른 날짜로 변경하실 수 있으며, 급한 진료가 필요하시면 국번 없이 119 또는 응급의료포털에서 가까운 병원을 안내받으실 수 있습니다.`, []simulator.Button{link("예약 날짜 바꾸기", "booking/#{예약번호}/edit")}},
}
