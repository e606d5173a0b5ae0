#include "wmtp/http/http_date.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace wmtp::http {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// Takes the date apart from its front; any part that is not there makes the whole fail.
class DateScanner {
 public:
  explicit DateScanner(std::string_view text) : rest_(text) {}

  void literal(std::string_view wanted) {
    good_ = good_ && rest_.starts_with(wanted);
    if (good_) rest_.remove_prefix(wanted.size());
  }
  int digits(std::size_t count) {
    int number = 0;
    for (std::size_t at = 0; at < count; ++at) {
      good_ = good_ && !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9';
      if (!good_) return 0;
      number = number * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    return number;
  }
  int day_of_asctime() {  // a blank stands for the first digit below 10
    if (!good_ || !rest_.starts_with(' ')) return digits(2);
    rest_.remove_prefix(1);
    return digits(1);
  }
  unsigned month() {
    const auto* found = std::ranges::find(kMonths, rest_.substr(0, 3));
    good_ = good_ && found != kMonths.end();
    if (!good_) return 0;
    rest_.remove_prefix(3);
    return static_cast<unsigned>(found - kMonths.begin()) + 1;
  }
  std::chrono::seconds time_of_day() {
    const int hour = digits(2);
    literal(":");
    const int minute = digits(2);
    literal(":");
    const int second = digits(2);
    good_ = good_ && hour < 24 && minute < 60 && second <= 60;  // 60: a leap second
    return std::chrono::seconds(hour * 3600 + minute * 60 + second);
  }
  bool is_whole() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

struct Date {
  int year = 0, day = 0;
  unsigned month = 0;
  std::chrono::seconds time{0};
};

Date scan_fixdate(DateScanner& scan) {  // 06 Nov 1994 08:49:37 GMT
  Date date;
  date.day = scan.digits(2);
  scan.literal(" ");
  date.month = scan.month();
  scan.literal(" ");
  date.year = scan.digits(4);
  scan.literal(" ");
  date.time = scan.time_of_day();
  scan.literal(" GMT");
  return date;
}

Date scan_rfc850(DateScanner& scan) {  // 06-Nov-94 08:49:37 GMT
  Date date;
  date.day = scan.digits(2);
  scan.literal("-");
  date.month = scan.month();
  scan.literal("-");
  const int year = scan.digits(2);
  date.year = year < 70 ? 2000 + year : 1900 + year;
  scan.literal(" ");
  date.time = scan.time_of_day();
  scan.literal(" GMT");
  return date;
}

Date scan_asctime(DateScanner& scan) {  // Nov  6 08:49:37 1994
  Date date;
  date.month = scan.month();
  scan.literal(" ");
  date.day = scan.day_of_asctime();
  scan.literal(" ");
  date.time = scan.time_of_day();
  scan.literal(" ");
  date.year = scan.digits(4);
  return date;
}

}  // namespace

std::optional<std::int64_t> parse_http_date(std::string_view text) {
  const std::size_t comma = text.find(", ");
  Date date;
  bool whole = false;
  if (comma == 3) {
    DateScanner scan(text.substr(comma + 2));
    date = scan_fixdate(scan);
    whole = scan.is_whole();
  } else if (comma != text.npos) {
    DateScanner scan(text.substr(comma + 2));
    date = scan_rfc850(scan);
    whole = scan.is_whole();
  } else if (text.size() > 4 && text[3] == ' ') {
    DateScanner scan(text.substr(4));
    date = scan_asctime(scan);
    whole = scan.is_whole();
  }
  const std::chrono::year_month_day day{std::chrono::year(date.year),
                                        std::chrono::month(date.month),
                                        std::chrono::day(static_cast<unsigned>(date.day))};
  if (!whole || !day.ok()) return std::nullopt;
  return (std::chrono::sys_days(day).time_since_epoch() + date.time).count();
}

}  // namespace wmtp::http
