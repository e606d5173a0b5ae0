#include "wmtp/config/migrate/references.h"

#include <fmt/format.h>

#include "wmtp/config/key_path.h"
#include "wmtp/config/old_keys.h"

namespace wmtp::config {

struct References::Rewriting {
  Result& result;
  int depth = 0, num_followed = 0;

  std::optional<Node> fail(std::string fact) const {
    if (result.fault.empty()) result.fault = std::move(fact);
    return std::nullopt;
  }
};

namespace {

// Where the brace closes that the reference at `start` opens; npos: nowhere.
std::size_t closing_brace(const std::string& text, std::size_t start) {
  int depth = 0;
  for (std::size_t i = start; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  return text.npos;
}

std::string without_quotes(std::string text) {
  while (!text.empty() && text.front() == ' ') text.erase(0, 1);
  while (!text.empty() && text.back() == ' ') text.pop_back();
  const bool quoted = text.size() >= 2 && (text.front() == '\'' || text.front() == '"') &&
                      text.front() == text.back();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

// `${.name}` stands beside the key, each further dot is one section up.
std::string absolute(const std::string& name, std::string_view path) {
  const std::size_t dots = std::min(name.find_first_not_of('.'), name.size());
  if (dots == 0) return name;
  for (std::size_t i = 0; i < dots; ++i)
    path = path.substr(0, path.rfind('.') == path.npos ? 0 : path.rfind('.'));
  return path.empty() ? name.substr(dots) : fmt::format("{}.{}", path, name.substr(dots));
}

bool is_scalar(const Node& node) {
  return !node.is(Node::Kind::list) && !node.is(Node::Kind::map) && !node.is(Node::Kind::null);
}

}  // namespace

std::string key_of_old_path(std::string_view path) {
  for (const OldKey& old : old_keys()) {
    if (!is_under(path, old.path)) continue;
    if (old.fate != OldKey::Fate::renamed) return "";
    return std::string(old.to) + std::string(path.substr(old.path.size()));
  }
  for (const auto& [foreign, ours] : foreign_names())
    if (path == foreign) return std::string(ours);
  std::string ignored;
  const auto target = find_target(path, ignored);
  return target && target->row ? main_name(path) : "";
}

References::Result References::rewrite(const Node& value, std::string_view path) {
  Result result;
  Rewriting state{result};
  result.value = fill(value, path, state);
  return result;
}

Node References::fill(const Node& value, std::string_view path, Rewriting& state) {
  if (value.is(Node::Kind::text)) return fill_text(value, path, state);
  Node copy = value;
  for (Node& item : copy.items) item = fill(item, path, state);
  return copy;
}

Node References::fill_text(const Node& value, std::string_view path, Rewriting& state) {
  Node result = text_node("", value.place);
  const std::string& text = value.text;
  for (std::size_t i = 0; i < text.size();) {
    if (text.compare(i, 3, "\\${") == 0) {  // a literal, which is $${ here
      result.text += "$${";
      i += 3;
      continue;
    }
    if (text.compare(i, 3, "$${") == 0 || text.compare(i, 2, "${") != 0) {
      const std::size_t size = text[i] == '$' && text.compare(i, 3, "$${") == 0 ? 3 : 1;
      result.text += text.substr(i, size);
      i += size;
      continue;
    }
    const std::size_t close = closing_brace(text, i);
    if (close == text.npos) {
      state.fail(fmt::format("\"{}\" has no closing brace", text.substr(i)));
      return value;
    }
    const auto part = reference(text.substr(i + 2, close - i - 2), path, state);
    if (!part) return value;
    if (i == 0 && close + 1 == text.size() && !part->is(Node::Kind::text)) return *part;
    result.text += part->text;
    i = close + 1;
    if (result.text.size() > kMaxBytes) {
      state.fail(fmt::format("longer than {} bytes with its references written out", kMaxBytes));
      return value;
    }
  }
  if (result.text != text && state.depth == 0 && state.result.note.empty())
    state.result.note = fmt::format("\"{}\" is written \"{}\"", text, result.text);
  return result;
}

std::optional<Node> References::reference(const std::string& body, std::string_view path,
                                          Rewriting& state) {
  const std::size_t colon = body.find(':');
  if (colon == body.npos) return key_reference(body, path, state);
  const std::string resolver = body.substr(0, colon), rest = body.substr(colon + 1);
  if (resolver != "oc.env" && resolver != "env")
    return state.fail(fmt::format(
        "${{{}}}: there is no resolver {}; ${{env:NAME}} and ${{a.b}} are all there are", body,
        resolver));
  const std::size_t comma = rest.find(',');
  if ((resolver == "env" && rest.find(":-") != rest.npos) || comma == rest.npos)
    return text_node("${env:" + rest + "}", {});
  const std::string fallback = without_quotes(rest.substr(comma + 1));
  if (fallback.find("${") != fallback.npos || fallback == "null")
    return state.fail(fmt::format("${{{}}}: the fallback of a variable is a plain text", body));
  return text_node(fmt::format("${{env:{}:-{}}}", without_quotes(rest.substr(0, comma)), fallback),
                   {});
}

std::optional<Node> References::key_reference(std::string name, std::string_view path,
                                              Rewriting& state) {
  name = absolute(name, path);
  if (const std::string key = key_of_old_path(name); !key.empty())
    return text_node("${" + key + "}", {});
  const auto steps = split_path(name);
  std::string ignored;
  const Node* found = steps ? walk(old_, *steps, false, ignored) : nullptr;
  if (!found || !is_scalar(*found))
    return state.fail(fmt::format("${{{}}}: the file has no such value", name));
  if (state.depth == kMaxDepth || ++state.num_followed > kMaxFollowed)
    return state.fail(fmt::format("references are more than {} deep, or more than {} in a value",
                                  kMaxDepth, kMaxFollowed));
  ++state.depth;
  Node value = fill(*found, name, state);
  --state.depth;
  // What a text holds beside it; a reference to a key is no text yet.
  if (state.result.note.empty())
    state.result.note = fmt::format("${{{}}} is gone and stands as its value", name);
  return value;
}

}  // namespace wmtp::config
