#!/usr/bin/env python3
"""Writes the declarations of bindings/rust/tenmap-sys from the public headers:

    scripts/rust-declarations.py [--check]

Three files: src/declarations.rs has everything that include/tenmap/*.h declares;
tests/layout/layout.c prints the size, the alignment and the offsets of every struct and the value of
every constant; tests/layout/table.rs has what Rust says about them, so that a test can compare the
two.

With --check it writes nothing. It fails if a file differs from what it would write; if a name in
scripts/symbols.txt, a struct or an enumerator is not declared in Rust; if the versions of the
crates are not the header's; and if the C compiler (CC, default cc) finds that a declaration in
Rust, translated back to C, contradicts the header. Without a C compiler it exits with 77.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUST = ROOT / "bindings/rust"
SYS = RUST / "tenmap-sys"
# In the order in which tenmap.h includes them.
HEADERS = re.findall(r'#include "tenmap/(\w+)\.h"', (ROOT / "include/tenmap.h").read_text())

# The C types that the headers use, and Rust's.
RUST_TYPES = {
    "void": "c_void", "char": "c_char", "int": "c_int", "float": "f32", "double": "f64",
    "size_t": "usize", "int32_t": "i32", "uint8_t": "u8", "uint16_t": "u16", "uint32_t": "u32",
    "uint64_t": "u64",
}
C_TYPES = {rust: c for c, rust in RUST_TYPES.items()}
KEYWORDS = {"as", "type", "move", "ref", "match", "use", "in", "fn", "mod"}

# Macros that are nothing in Rust, or that lib.rs defines.
NOT_HERE = {"TENMAP_API", "TENMAP_VERSION", "TENMAP_VERSION_TEXT"}

TOKEN = re.compile(r"""
    (?P<comment>/\*.*?\*/) | (?P<directive>^[ ]*\#(?:\\\n|[^\n])*) |
    (?P<word>\w+) | (?P<mark>"C"|[^\s\w])""", re.S | re.M | re.X)


class Token:
    """A piece of a header, with the comment before it and the one behind it on the same line."""

    def __init__(self, kind, text, line, end):
        self.kind, self.text, self.line, self.end = kind, text, line, end
        self.before = self.behind = ""


def words_of(comment):
    """Returns the lines of a comment without its marks."""
    lines = comment[2:-2].split("\n")
    lines = [re.sub(r"^\s*\* ?", "", line).rstrip() if at else line.strip()
             for at, line in enumerate(lines)]
    return "\n".join(lines).strip("\n")


def tokens_of(header):
    """Returns the tokens of a header, without comments, which are attached to their neighbors."""
    text = (ROOT / f"include/tenmap/{header}.h").read_text(encoding="utf-8")
    found, waiting = [], None
    for match in TOKEN.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        end = line + match.group().count("\n")
        if match.lastgroup == "comment":
            if found and found[-1].end == line and found[-1].kind != "directive":
                found[-1].behind = words_of(match.group())
            else:
                waiting = (words_of(match.group()), end)
            continue
        token = Token(match.lastgroup, match.group(), line, end)
        if waiting and waiting[1] == line - 1:
            token.before = waiting[0]
        waiting = None
        found.append(token)
    return found


class Parser:
    """Reads declarations in the style of the public headers; anything else is an error."""

    def __init__(self, header):
        self.header, self.tokens, self.at = header, tokens_of(header), 0
        self.items = []  # (kind, name, what, comment)

    def fail(self, why):
        token = self.tokens[min(self.at, len(self.tokens) - 1)]
        sys.exit(f"include/tenmap/{self.header}.h:{token.line}: {why} at '{token.text}'")

    def peek(self, ahead=0):
        at = self.at + ahead
        return self.tokens[at].text if at < len(self.tokens) else ""

    def take(self, expected=None):
        if expected is not None and self.peek() != expected:
            self.fail(f"expected '{expected}'")
        self.at += 1
        return self.tokens[self.at - 1]

    def base(self):
        """Reads a type's name: ("name", NAME, is const)."""
        const = name = None
        while self.peek() in ("const", "struct") or name is None:
            word = self.take()
            if word.text == "const":
                const = True
            elif word.text != "struct":
                if word.kind != "word":
                    self.fail("expected a type")
                name = word.text
        return ("name", name, bool(const))

    def declarator(self, kind):
        """Reads what follows a type's name: (name, type)."""
        while self.peek() == "*":
            self.take()
            const = self.peek() == "const"
            if const:
                self.take()
            kind = ("pointer", kind, const)
        if self.peek() == "(":
            self.take("(")
            self.take("*")
            name = self.take().text
            self.take(")")
            return name, ("function", kind, self.parameters())
        name = self.take().text
        while self.peek() == "[":
            self.take("[")
            kind = ("array", kind, int(self.take().text))
            self.take("]")
        return name, kind

    def parameters(self):
        self.take("(")
        found = []
        if self.peek() == "void" and self.peek(1) == ")":
            self.take()
        while self.peek() != ")":
            name, kind = self.declarator(self.base())
            if kind[0] == "array":  # C passes the address of its first element
                kind = ("pointer", kind[1], False)
            found.append((name, kind))
            if self.peek() == ",":
                self.take()
        self.take(")")
        return found

    def struct(self, comment):
        self.take("typedef")
        self.take("struct")
        name = self.take().text
        fields = None
        if self.peek() == "{":
            self.take("{")
            fields = []
            while self.peek() != "}":
                before, first = self.tokens[self.at].before, len(fields)
                base = self.base()
                while True:
                    fields.append([*self.declarator(base), before])
                    if self.peek() != ",":
                        break
                    self.take()
                behind = self.take(";").behind
                for field in fields[first:]:
                    field[2] = join(field[2], behind)
            self.take("}")
        if self.take().text != name:
            self.fail("expected the struct's own name")
        behind = self.take(";").behind
        self.items.append(("struct", name, fields, join(comment, behind)))

    def enum(self, comment):
        self.take("enum")
        self.take("{")
        values = []
        while self.peek() != "}":
            first = self.tokens[self.at]
            name = self.take().text
            self.take("=")
            value = self.take()
            behind = value.behind
            if self.peek() == ",":
                behind = join(behind, self.take().behind)
            values.append((name, int(value.text), join(first.before, behind)))
        self.take("}")
        behind = self.take(";").behind
        self.items.append(("enum", values[0][0], values, join(comment, behind)))

    def function(self, comment):
        self.take("TENMAP_API")
        name, result = self.declarator(self.base())
        parameters = self.parameters()
        behind = self.take(";").behind
        self.items.append(("function", name, (result, parameters), join(comment, behind)))

    def directive(self, text, comment):
        text = text.replace("\\\n", " ")
        match = re.match(r"\s*#\s*define\s+(TENMAP_\w+)(\(n\))?\s+(.*)", text, re.S)
        if not match or match.group(1) in NOT_HERE:
            return
        self.items.append(("macro", match.group(1), re.sub(r"\s+", " ", match.group(3)), comment))

    def parse(self):
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.kind == "directive":
                self.take()
                self.directive(token.text, token.before)
            elif token.text == "extern":  # extern "C" {
                self.at += 3
            elif token.text == "}":
                self.take()
            elif token.text == "enum":
                self.enum(token.before)
            elif token.text == "TENMAP_API":
                self.function(token.before)
            elif token.text == "typedef" and self.peek(1) != "struct":
                self.take()
                base = self.base()
                name = self.take().text
                self.items.append(("alias", name, base, join(token.before, self.take(";").behind)))
            elif token.text == "typedef":
                self.struct(token.before)
            else:
                self.fail("cannot read this declaration")
        return self.items


def join(one, two):
    return "\n".join(part for part in (one, two) if part)


# Rust

def raw(name):
    return "r#" + name if name in KEYWORDS else name


def rust_type(kind):
    if kind[0] == "name":
        if kind[1] not in RUST_TYPES and not kind[1].startswith("tenmap_"):
            sys.exit(f"no Rust type is known for '{kind[1]}': add it to RUST_TYPES")
        return RUST_TYPES.get(kind[1], kind[1])
    if kind[0] == "pointer":
        inner = kind[1]
        is_const = inner[2] if inner[0] in ("name", "pointer") else False
        return ("*const " if is_const else "*mut ") + rust_type(inner)
    if kind[0] == "array":
        return f"[{rust_type(kind[1])}; {kind[2]}]"
    return f'Option<unsafe extern "C" fn{rust_signature(kind[1], kind[2])}>'


def rust_signature(result, parameters):
    inside = ", ".join(f"{raw(name)}: {rust_type(kind)}" for name, kind in parameters)
    tail = "" if result == ("name", "void", False) else f" -> {rust_type(result)}"
    return f"({inside}){tail}"


def documentation(comment, indent=""):
    """Returns a comment of the headers as a comment of rustdoc."""
    out, code = [], False
    for line in comment.split("\n") if comment else []:
        is_code = line.startswith("    ")
        if is_code != code:
            out.append("```c" if is_code else "```")
            code = is_code
        if not is_code:
            line = re.sub(r"`[^`]*`|[\[\]<>*]|__", lambda m: m.group() if m.group()[0] == "`" else
                          "".join("\\" + c for c in m.group()), line)
        out.append(line)
    if code:
        out.append("```")
    return "".join(f"{indent}///{' ' + line if line else ''}\n" for line in out)


def constant_type(name, first):
    if first == "TENMAP_OK":
        return "tenmap_status"
    return "tenmap_dtype" if first == "TENMAP_AS_STORED" else "u32"


MACROS = {  # how C writes the macros that are numbers, and how Rust does
    r"(\d+)": ("u32", "{0}"),
    r"\(\(size_t\)-1\)": ("usize", "usize::MAX"),
    r"\(\(uint64_t\)-1\)": ("u64", "u64::MAX"),
    r"\(\(uint32_t\)-1\)": ("u32", "u32::MAX"),
}
SHIFTED = re.compile(r"\(\(\(uint64_t\)\(n\) < 4094u \? "
                     r"\(uint32_t\)\(n\) \+ 1u : 4095u\) << (\d+)\)")
INITIAL = re.compile(r"\{ sizeof\((tenmap_\w+)\)[ ,{}0NUL]*\}")


def rust_macro(name, text):
    """Returns a macro in Rust and, of a number, its type."""
    for pattern, (kind, value) in MACROS.items():
        match = re.fullmatch(pattern, text)
        if match:
            return f"pub const {name}: {kind} = {value.format(*match.groups())};\n", kind
    match = re.fullmatch(r'"([^"\\]*)"', text)
    if match:
        return f"pub const {name}: &core::ffi::CStr = c{text};\n", None
    match = SHIFTED.fullmatch(text)
    if match:
        value = f"(if n < 4094 {{ n as u32 + 1 }} else {{ 4095 }}) << {match.group(1)}"
        return f"pub const fn {name}(n: u64) -> u32 {{\n    {value}\n}}\n", None
    match = INITIAL.fullmatch(text)
    if match:
        struct = match.group(1)
        return (f"pub const {name}: {struct} = {{\n"
                f"    // SAFETY: every field is a number, a pointer or an Option of a function, all of\n"
                f"    // which may be zero.\n"
                f"    let mut options: {struct} = unsafe {{ core::mem::zeroed() }};\n"
                f"    options.struct_size = core::mem::size_of::<{struct}>();\n"
                f"    options\n}};\n"), None
    sys.exit(f"the macro {name} is none of the kinds that this script knows: {text}")


HEAD = "// Written by scripts/rust-declarations.py from include/tenmap/*.h. Change those instead.\n"


def declarations(items):
    out, functions = [HEAD, "\nuse core::ffi::{c_char, c_int, c_void};\n"], []
    for kind, name, what, comment in items:
        text = documentation(comment)
        if kind == "alias":
            out.append(f"\n{text}pub type {name} = {rust_type(what)};\n")
        elif kind == "macro":
            out.append(f"\n{text}{rust_macro(name, what)[0]}")
        elif kind == "enum":
            out.append("\n")
            for value, number, about in what:
                out.append(documentation(about) or (text if value == name else ""))
                out.append(f"pub const {value}: {constant_type(value, name)} = {number};\n")
        elif kind == "struct" and what is None:
            out.append(f"\n{text or '/// A handle, which is only reached by pointer.' + chr(10)}"
                       f"#[repr(C)]\npub struct {name} {{\n    _opaque: [u8; 0],\n"
                       f"    _not_send: core::marker::PhantomData<*mut c_void>,\n}}\n")
        elif kind == "struct":
            out.append(f"\n{text}#[repr(C)]\npub struct {name} {{\n")
            for field, field_kind, about in what:
                out.append(documentation(about, "    "))
                out.append(f"    pub {raw(field)}: {rust_type(field_kind)},\n")
            out.append("}\n")
        else:
            functions.append(f"{documentation(comment, '    ')}    pub fn {name}"
                             f"{rust_signature(*what)};\n")
    out.append('\nunsafe extern "C" {\n' + "".join(functions) + "}\n")
    return "".join(out)


# The test of layouts

def numbers(items):
    """Returns the names of all constants that are numbers, with their types in Rust."""
    for kind, name, what, _ in items:
        if kind == "enum":
            yield from ((value, constant_type(value, name)) for value, _, _ in what)
        elif kind == "macro" and rust_macro(name, what)[1]:
            yield name, rust_macro(name, what)[1]


def structs(items):
    return [(name, fields) for kind, name, fields, _ in items if kind == "struct" and fields]


def layout_c(items):
    out = ["/* Written by scripts/rust-declarations.py: prints C's layouts and values. */\n"
           "#include <stddef.h>\n#include <stdio.h>\n\n#include \"tenmap.h\"\n\n"
           '#define STRUCT(name) printf(#name " %zu %zu\\n", sizeof(name), _Alignof(name))\n' +
           "#define FIELD(name, field)".ljust(99) + "\\\n" +
           '    printf(#name "." #field " %zu %zu\\n", offsetof(name, field), '
           "sizeof(((name *)0)->field))\n"
           "#define VALUE(name) printf(#name \" %llu\\n\", (unsigned long long)(name))\n\n"
           "int main(void) {\n"]
    for name, fields in structs(items):
        out.append(f"    STRUCT({name});\n")
        out += [f"    FIELD({name}, {field});\n" for field, _, _ in fields]
    out += [f"    VALUE({name});\n" for name, _ in numbers(items)]
    out.append("    return 0;\n}\n")
    return "".join(out)


def layout_rust(items):
    out = [HEAD, "\nuse super::*;\n\npub fn table() -> Vec<String> {\n    vec![\n"]
    for name, fields in structs(items):
        out.append(f"        layout::<{name}>(\"{name}\"),\n")
        out += [f"        field(\"{name}.{field}\", offset_of!({name}, {raw(field)}), "
                f"|s: &{name}| size_of_val(&s.{raw(field)})),\n" for field, _, _ in fields]
    out += [f"        value(\"{name}\", {name}{'' if kind == 'u64' else ' as u64'}),\n"
            for name, kind in numbers(items)]
    out.append("    ]\n}\n")
    return "".join(out)


# The check: what the Rust file says, translated back to C and compiled with the headers

class Back:
    """Reads types of Rust and writes them as C, independently of the code above."""

    def __init__(self, text):
        self.parts = re.findall(r"r#\w+|\w+|->|\S", text)

    def take(self, *expected):
        for part in expected:
            if not self.parts or self.parts[0] != part:
                sys.exit(f"declarations.rs: expected '{part}' at '{' '.join(self.parts[:8])}'")
            self.parts.pop(0)

    def type(self, name):
        """Returns a declaration of NAME, which has the type that comes next."""
        part = self.parts.pop(0)
        if part == "*":
            const = self.parts.pop(0) == "const"
            return self.pointee(name, const)
        if part == "[":
            inner = self.type("\0")
            self.take(";")
            count = self.parts.pop(0)
            self.take("]")
            return inner.replace("\0", f"{name}[{count}]")
        if part == "Option":
            self.take("<", "unsafe", "extern", '"', "C", '"', "fn")
            declared = self.signature(f"(*{name})")
            self.take(">")
            return declared
        return f"{C_TYPES.get(part, part)} {name}"

    def pointee(self, name, const):
        qualifier = "const " if const else ""
        if self.parts[0] == "*":  # what is const is the pointer that this one points to
            return self.type(f"{qualifier}*{name}")
        return qualifier + self.type(f"*{name}")

    def signature(self, name):
        self.take("(")
        parameters = []
        while self.parts[0] != ")":
            parameter = self.parts.pop(0).removeprefix("r#")
            self.take(":")
            parameters.append(self.type(parameter))
            if self.parts[0] == ",":
                self.take(",")
        self.take(")")
        declared = f"{name}({', '.join(parameters) or 'void'})"
        if self.parts and self.parts[0] == "->":
            self.take("->")
            return self.type(declared)
        return f"void {declared}"


def back_to_c(rust):
    """Returns C that compiles beside the headers only if it agrees with them."""
    rust = re.sub(r"^\s*//.*\n", "", rust, flags=re.M)
    out = ['#include "tenmap.h"\n']
    for name, rest in re.findall(r"pub fn (tenmap_\w+)(\(.*\).*);", rust):
        out.append(f"TENMAP_API {Back(rest).signature(name)};\n")
    for name, body in re.findall(r"pub struct (tenmap_\w+) \{\n(.*?)\n\}", rust, flags=re.S):
        for field, kind in re.findall(r"pub (?:r#)?(\w+): (.*),", body):
            declared = Back(kind).type(f"rust_{name}_{field}")
            out.append(f"extern {declared};\n_Static_assert(__builtin_types_compatible_p("
                       f"__typeof__(rust_{name}_{field}), __typeof__((({name} *)0)->{field})), "
                       f"\"{name}.{field} has another type in Rust\");\n")
    for name, value in re.findall(r"pub const (TENMAP_\w+): \w+ = (\d+);", rust):
        out.append(f"_Static_assert({name} == {value}, \"{name} has another value in Rust\");\n")
    return "".join(out)


def missing(rust):
    """Returns the names of the API that the Rust file does not declare."""
    text = "".join((ROOT / f"include/tenmap/{name}.h").read_text(encoding="utf-8")
                   for name in HEADERS)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    listed = (ROOT / "scripts/symbols.txt").read_text().split()
    wanted = [(name, rf"pub fn {name}\(") for name in listed]
    wanted += [(name, rf"pub struct {name} \{{")
               for name in re.findall(r"\btypedef struct (\w+)", text)]
    wanted += [(name, rf"pub const {name}: ")
               for body in re.findall(r"\benum \{(.*?)\}", text, flags=re.S)
               for name in re.findall(r"\bTENMAP_\w+", body)]
    print(f"{len(listed)} functions, {len(wanted)} names")
    if not listed or len(wanted) < 2 * len(listed):
        sys.exit("there are too few names: the headers are not read as they should be")
    return [name for name, pattern in wanted if not re.search(pattern, rust)]


def versions():
    """Returns what is wrong about the versions of the crates: "1.2.3-rc.1" is C's 1.2.3rc1."""
    header = (ROOT / "include/tenmap/types.h").read_text(encoding="utf-8")
    version = ".".join(re.findall(r"#define TENMAP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    suffix = re.search(r'#define TENMAP_VERSION_SUFFIX "(\w*)"', header)
    wrong = []
    for path in (RUST / "Cargo.toml", RUST / "tenmap/Cargo.toml"):
        text = path.read_text(encoding="utf-8")
        found = re.findall(r'version = "=?(\d+\.\d+\.\d+)-?([\w.]*)"', text)
        if not found:
            wrong.append(f"{path.relative_to(ROOT)} has no version")
        for crate, release in found:
            if crate != version or suffix and suffix.group(1) != release.replace(".", ""):
                wrong.append(f"{path.relative_to(ROOT)} has version {crate}-{release}, the header "
                             f"{version}{suffix.group(1) if suffix else ''}")
    return wrong


def check(files):
    compiler = os.environ.get("CC", "cc").split()
    if not shutil.which(compiler[0]):
        print(f"skipped: the C compiler {compiler[0]} is not here")
        sys.exit(77)
    rust = (SYS / "src/declarations.rs").read_text(encoding="utf-8")
    wrong = [f"not declared in declarations.rs: {name}" for name in missing(rust)] + versions()
    wrong += [f"{path.relative_to(ROOT)} is old: run scripts/rust-declarations.py"
              for path, text in files.items()
              if not path.exists() or path.read_text(encoding="utf-8") != text]
    text = back_to_c(rust)
    command = [*compiler, "-x", "c", "-std=gnu11", "-fsyntax-only", f"-I{ROOT / 'include'}", "-"]
    result = subprocess.run(command, input=text, text=True, capture_output=True)
    if result.returncode:
        wrong.append("C and Rust contradict each other:\n" + result.stderr)
    print(f"{text.count('TENMAP_API')} functions and {text.count('types_compatible')} fields "
          f"compared with C's")
    if wrong:
        sys.exit("\n".join(wrong))


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    items = [item for header in HEADERS for item in Parser(header).parse()]
    files = {SYS / "src/declarations.rs": declarations(items),
             SYS / "tests/layout/layout.c": layout_c(items),
             SYS / "tests/layout/table.rs": layout_rust(items)}
    if sys.argv[1:]:
        check(files)
        return
    for path, text in files.items():
        path.write_text(text, encoding="utf-8", newline="\n")
        print(f"{path.relative_to(ROOT)}: {text.count(chr(10))} lines")


main()
