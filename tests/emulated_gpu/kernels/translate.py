#!/usr/bin/env python3
"""translate.py SOURCE NAME OUT: rewrites what only nvcc reads in a .cu or .cuh, so that a host compiler takes it.

Launches, __shared__ variables and launch bounds become calls into the emulator (include/emulated); everything else that
CUDA adds to C++ stands in the headers there. Lines stay where they are, and a #line directive makes messages name the
source by NAME. What is not understood is an error with file and line: nothing is passed on half translated.
"""
import re
import sys
from pathlib import Path

COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.S)
OPENING, CLOSING = "([{", ")]}"


class NotUnderstood(Exception):
    def __init__(self, place, why):
        super().__init__(why)
        self.place = place


def blanked(text):
    """The same text with comments and the insides of literals as spaces: places and lines stay."""
    return COMMENT_OR_TEXT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def behind_bracket(code, begin):
    """The place behind the bracket that closes the one at `begin`."""
    depth = 0
    for place in range(begin, len(code)):
        depth += (code[place] in OPENING) - (code[place] in CLOSING)
        if depth == 0:
            return place + 1
    raise NotUnderstood(begin, "a bracket that nothing closes")


def kernel_begin(code, end):
    """Where the kernel's name begins that ends at `end`: an identifier with qualifiers, maybe with template arguments."""
    place = end
    if code[:place].endswith(">"):
        angles = brackets = 0
        while True:
            place -= 1
            if place < 0 or code[place] in ";{}":
                raise NotUnderstood(end, "template arguments of a kernel that nothing opens")
            brackets += (code[place] in CLOSING) - (code[place] in OPENING)
            if brackets == 0:
                angles += (code[place] == ">") - (code[place] == "<")
            if angles == 0:
                break
    name = re.search(r"(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*\s*\Z", code[:place])
    if not name:
        raise NotUnderstood(end, "a launch of something that is neither a kernel's name nor a variable")
    return name.start()


def configuration_end(code, begin):
    """The place of the >>> that closes a launch's configuration, outside of all brackets."""
    place = begin
    while place < len(code) and code[place] not in ";{}":
        if code[place] in OPENING:
            place = behind_bracket(code, place)
        elif code.startswith(">>>", place):
            if code.startswith(">>>>", place):
                raise NotUnderstood(place, "template arguments right before >>>: put them into a variable")
            return place
        else:
            place += 1
    raise NotUnderstood(begin, "a launch without >>>")


def launches(text, code):
    """kernel<<<configuration>>> -> configured("kernel", kernel, configuration); its arguments stay."""
    for found in re.finditer(r"<<<", code):
        name_end = len(code[:found.start()].rstrip())
        begin, end = kernel_begin(code, name_end), configuration_end(code, found.end())
        if not code[end + 3:].lstrip().startswith("("):
            raise NotUnderstood(end, "a launch without arguments in ( )")
        name = " ".join(text[begin:name_end].split()).replace('"', "'")
        yield begin, begin, f'::wmtp::emulated::configured("{name}", '
        yield found.start(), found.end(), ", "
        yield end, end + 3, ")"


def shared_variables(code):
    """Of dynamic shared memory a pointer, of static one a variable that is unwritten again in every block."""
    for found in re.finditer(r"(\bextern\s+)?\b__shared__\b([^;]*);", code):
        declaration = re.sub(r"__align__\s*\([^()]*\)", lambda align: " " * len(align[0]), found[2])
        if found[1]:
            parts = re.fullmatch(r"\s*([\w:\s]+?)\s*\b(\w+)\s*\[\s*\]\s*", declaration)
            if not parts:
                raise NotUnderstood(found.start(), "dynamic shared memory that is not `extern __shared__ T name[]`")
            pointer = f"[[maybe_unused]] {parts[1]}* const {parts[2]} = ::wmtp::emulated::dynamic_shared<{parts[1]}>();"
            yield found.start(), found.end(), pointer
            continue
        declarators = re.sub(r"\[[^\]]*\]", "", declaration)
        if re.search(r"[=({<*&]", declarators):
            raise NotUnderstood(found.start(), "a __shared__ variable with more than a type, names and extents")
        names = [part.split()[-1] for part in declarators.split(",")]
        yield found.start(2) - len("__shared__"), found.start(2), "static"
        fresh = "".join(f" static ::wmtp::emulated::SharedVariable {name}_in_block;"
                        f" {name}_in_block.open(&{name}, sizeof({name}));" for name in names)
        yield found.end(), found.end(), fresh


def launch_bounds(code):
    """The bounds move into the kernel, which sees its template arguments and the block it was started with."""
    for found in re.finditer(r"__launch_bounds__\s*(?=\()", code):
        end = behind_bracket(code, found.end())
        body = re.match(r"\s*\w+\s*(?=\()", code[end:])
        if not body:
            raise NotUnderstood(found.start(), "__launch_bounds__ that no kernel's name follows")
        parameters_end = behind_bracket(code, end + body.end())
        brace = re.match(r"\s*([{;])", code[parameters_end:])
        if not brace:
            raise NotUnderstood(found.start(), "a kernel without a body or ; behind its parameters")
        bounds = code[found.end():end]
        yield found.start(), end, "\n" * code.count("\n", found.start(), end)
        if brace[1] == "{":
            place = parameters_end + brace.end()
            yield place, place, f" ::wmtp::emulated::check_launch_bounds{bounds.replace(chr(10), ' ')};"


def translated(text, name):
    code = blanked(text)
    edits = sorted([*launches(text, code), *shared_variables(code), *launch_bounds(code)])
    parts, done = [f'#line 1 "{name}"\n'], 0
    for begin, end, replacement in edits:
        if begin < done:
            raise NotUnderstood(begin, "a launch, __shared__ variable or launch bound inside of another")
        kept_lines = text.count("\n", begin, end) - replacement.count("\n")
        parts += [text[done:begin], replacement, "\n" * kept_lines]
        done = end
    return "".join([*parts, text[done:]])


def main():
    if len(sys.argv) != 4:
        sys.exit("translate.py: expects SOURCE NAME OUT")
    source, name, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    text = source.read_text()
    try:
        result = translated(text, name)
    except NotUnderstood as fault:
        sys.exit(f"{name}:{text.count(chr(10), 0, fault.place) + 1}: error: translate.py does not understand {fault}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(result)


if __name__ == "__main__":
    main()
