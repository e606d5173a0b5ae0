#include "wmtp/s3/iso_time.h"

#include <chrono>
#include <string>

namespace wmtp::s3 {

std::optional<std::int64_t> parse_iso_time(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  if (text.size() <= kForm.size() || !text.ends_with('Z')) return std::nullopt;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t at = 0; at < kForm.size(); ++at)
    if (kForm[at] == '0' ? !is_digit(text[at]) : text[at] != kForm[at]) return std::nullopt;
  const std::string_view fraction = text.substr(kForm.size(), text.size() - kForm.size() - 1);
  if (!fraction.empty() && (fraction.front() != '.' || fraction.size() == 1)) return std::nullopt;
  for (std::size_t at = 1; at < fraction.size(); ++at)
    if (!is_digit(fraction[at])) return std::nullopt;
  const auto number = [&](std::size_t begin, std::size_t count) {
    int value = 0;
    for (std::size_t at = begin; at < begin + count; ++at) value = value * 10 + (text[at] - '0');
    return value;
  };
  const std::chrono::year_month_day day{std::chrono::year(number(0, 4)),
                                        std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  const int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  if (!day.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  const std::chrono::seconds midnight = std::chrono::sys_days(day).time_since_epoch();
  return midnight.count() + (hour * 3600L) + (minute * 60L) + second;
}

}  // namespace wmtp::s3
