// Parts that the page is put together from. Texts are escaped here.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace wmtp::tracking {

// A figure with its caption; "" without a drawing. `anchor`: its place on the page, or none.
std::string panel_html(std::string_view caption, const std::string& drawing,
                       std::string_view anchor = {});
// A heading over a grid of panels; "" without panels.
std::string section_html(std::string_view title, const std::string& panels,
                         std::string_view anchor = {});

// Numbers stay in one line and scroll; long texts break.
enum class Cells { numbers, texts };
std::string table_html(const std::vector<std::string>& header,
                       const std::vector<std::vector<std::string>>& rows, Cells cells);
std::string pairs_html(const std::vector<std::pair<std::string, std::string>>& pairs);
std::string list_html(const std::vector<std::string>& lines);
std::string details_html(std::string_view title, const std::string& body, bool open);

}  // namespace wmtp::tracking
