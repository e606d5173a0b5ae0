#include "wmtp/tracking/report/curves_html.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/curves.h"
#include "wmtp/tracking/report/html_parts.h"

namespace wmtp::tracking {
namespace {

std::vector<LineChart> charts_of(const CurveGroup& group, const std::vector<RunData>& runs,
                                 XAxis axis) {
  if (runs.size() > 1) return overlays_of(group, runs, axis);
  std::vector<LineChart> charts{chart_of(group, runs[0], axis)};
  if (charts[0].curves.empty()) charts.clear();
  return charts;
}

std::vector<XAxis> told_axes(const std::vector<RunData>& runs) {
  std::vector<XAxis> axes;
  for (const XAxis axis : {XAxis::step, XAxis::tokens, XAxis::time})
    if (std::any_of(runs.begin(), runs.end(),
                    [&](const RunData& run) { return !StepPlaces(run, axis).empty(); }))
      axes.push_back(axis);
  return axes;
}

// One thing that is measured in all its forms, of which one is seen, above one legend. `forms` are
// its drawings over each of `axes`.
std::string switched(const std::vector<XAxis>& axes, std::vector<LineChart> forms) {
  std::string out;
  const std::string title = forms[0].title;
  for (std::size_t i = 0; i < axes.size(); ++i)
    for (const bool log_y : {false, true}) {
      LineChart& chart = forms[i];
      chart.log_y = log_y;
      chart.dots = i == 0 && !log_y;
      if (i > 0 || log_y)
        chart.title =
            fmt::format("{} over {}{}", title, name_of(axes[i]), log_y ? ", logarithmic" : "");
      std::string drawing = chart_drawing(chart);
      if (drawing.empty()) drawing = "<p class=\"note\">nothing to draw here</p>";
      out += fmt::format("<div class=\"form x{} y{}\">{}</div>", static_cast<int>(axes[i]),
                         log_y ? 1 : 0, drawing);
    }
  forms[0].log_y = false;
  return out + chart_legend(forms[0]);
}

std::string loss_panels(const CurveGroup& group, const std::vector<RunData>& runs,
                        const std::vector<XAxis>& axes) {
  std::vector<std::vector<LineChart>> by_axis;
  for (const XAxis axis : axes) by_axis.push_back(charts_of(group, runs, axis));
  std::string out;
  for (std::size_t i = 0; i < by_axis[0].size(); ++i) {
    if (chart_drawing(by_axis[0][i]).empty()) continue;
    std::vector<LineChart> forms;
    for (const auto& charts : by_axis) forms.push_back(charts[i]);
    const bool alone = runs.size() == 1;
    out += panel_html(alone ? group.title : by_axis[0][i].title, switched(axes, std::move(forms)),
                      alone ? curve_anchor(group.title) : "");
  }
  return out;
}

std::string choice(const std::string& id, std::string_view text) {
  return fmt::format("<label for=\"{}\">{}</label>", id, text);
}

// The buttons stand before what they switch, so that style sheets can follow from one to the other.
std::string switches(const std::vector<XAxis>& axes) {
  std::string buttons, bar = "<span class=\"bar\"><span class=\"choices\">over ";
  for (const XAxis axis : axes) {
    const std::string id = fmt::format("x{}", static_cast<int>(axis));
    buttons += fmt::format("<input type=\"radio\" class=\"pick\" name=\"x\" id=\"{}\"{}/>", id,
                           axis == XAxis::step ? " checked=\"checked\"" : "");
    bar += choice(id, name_of(axis));
  }
  buttons +=
      "<input type=\"radio\" class=\"pick\" name=\"y\" id=\"y0\" checked=\"checked\"/>"
      "<input type=\"radio\" class=\"pick\" name=\"y\" id=\"y1\"/>"
      "<input type=\"checkbox\" class=\"pick\" id=\"smoothed\"/>";
  bar += "</span><span class=\"choices\">y " + choice("y0", "linear") +
         choice("y1", "logarithmic") + "</span><span class=\"choices\">" +
         choice("smoothed", "smoothed") + "</span></span>\n";
  return buttons + bar;
}

// Headings of several runs are those of the groups; one run has one for all.
std::string losses_html(const std::vector<RunData>& runs) {
  const std::vector<XAxis> axes = told_axes(runs);
  std::string first, others;
  for (const CurveGroup& group : curve_groups()) {
    if (!group.is_loss) continue;
    const std::string panels = loss_panels(group, runs, axes);
    if (panels.empty()) continue;
    if (runs.size() == 1 || first.empty())
      first += panels;
    else
      others += section_html(group.title, panels, curve_anchor(group.title));
  }
  if (first.empty()) return "";
  const std::string place = runs.size() == 1 ? "" : fmt::format(" id=\"{}\"", curve_anchor("Loss"));
  return fmt::format(
      "<section><h2{}>Loss</h2>\n{}<div class=\"forms\"><div class=\"grid\">{}</div>\n{}</div>"
      "</section>\n",
      place, switches(axes), first, others);
}

}  // namespace

std::string curves_html(const std::vector<RunData>& runs) {
  std::string rows, all;
  for (const CurveGroup& group : curve_groups()) {
    if (group.is_loss) continue;
    const std::string anchor = curve_anchor(group.title);
    std::string row;
    for (const LineChart& chart : charts_of(group, runs, XAxis::step))
      row += runs.size() == 1 ? panel_html(group.title, to_svg(chart), anchor)
                              : panel_html(chart.title, to_svg(chart));
    if (runs.size() == 1)
      all += row;
    else
      rows += section_html(group.title, row, anchor);
  }
  return losses_html(runs) + (runs.size() == 1 ? section_html("Curves", all) : rows);
}

}  // namespace wmtp::tracking
