"""The programs: packages of PyPI, Debian's commands, and the interpreter itself. None is a kernel of the mix.

A pass does the same work everywhere and takes from a millisecond to a few hundred. Libraries are told to use
one thread: every CPU runs one copy. A command's pass starts it, on files that the worker has made.
"""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache, partial
from importlib import import_module, metadata
from pathlib import Path
from types import MappingProxyType

from corewise.normalization.mix import Pass
from experiments.accuracy import inputs

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""The environment of a worker."""


class MissingProgramError(Exception):
    """The program is not here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program. ``version`` raises :class:`MissingProgramError` where it is not installed."""

    kind: str
    version: Callable[[], str]
    prepare: Callable[[], Pass]


def _python() -> str:
    return f"{platform.python_implementation()} {platform.python_version()}"


def _package(name: str) -> str:
    try:
        return f"{name} {metadata.version(name)}, {_python()}"
    except metadata.PackageNotFoundError as error:
        raise MissingProgramError(f"the package {name} is not installed") from error


def _of_package(kind: str, package: str, prepare: Callable[[], Pass]) -> Program:
    return Program(kind, partial(_package, package), prepare)


def _zstd() -> Pass:
    data = inputs.text(60_000).encode()
    compressor = import_module("zstandard").ZstdCompressor(level=3)
    return lambda: compressor.compress(data)


def _brotli() -> Pass:
    data, compress = inputs.text(20_000).encode(), import_module("brotli").compress
    return lambda: compress(data, quality=5)


def _lz4() -> Pass:
    data, frame = inputs.text(60_000).encode(), import_module("lz4.frame")
    return lambda: frame.decompress(frame.compress(data))


def _orjson() -> Pass:
    orjson = import_module("orjson")
    data = orjson.dumps(inputs.records(2000))
    return lambda: orjson.dumps(orjson.loads(data))


def _aes_gcm() -> Pass:
    cipher = import_module("cryptography.hazmat.primitives.ciphers.aead").AESGCM(inputs.noise("key", 32))
    nonce, data = inputs.noise("nonce", 12), inputs.noise("plain", 1 << 20)
    return lambda: cipher.encrypt(nonce, data, None)


def _ed25519() -> Pass:
    keys = import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    key = keys.Ed25519PrivateKey.from_private_bytes(inputs.noise("ed25519", 32))
    public, data = key.public_key(), inputs.noise("signed", 1000)

    def one_pass() -> None:
        for _ in range(20):
            public.verify(key.sign(data), data)

    return one_pass


def _sha256() -> Pass:
    hashes, data = import_module("cryptography.hazmat.primitives.hashes"), inputs.noise("hashed", 1 << 20)

    def one_pass() -> None:
        digest = hashes.Hash(hashes.SHA256())
        digest.update(data)
        digest.finalize()

    return one_pass


def _regex() -> Pass:
    pattern = import_module("regex").compile(r"\b(?:[aeiou]\w+|\w*(?:st|ch)\w*)\s+(\w{5,})\b")
    text = inputs.text(5000)
    return lambda: pattern.findall(text)


def _matmul() -> Pass:
    numpy = import_module("numpy")
    left = numpy.array(inputs.numbers("matrix", 384 * 384, 1000), dtype=numpy.float64).reshape(384, 384)
    return lambda: left @ left


def _fft() -> Pass:
    numpy = import_module("numpy")
    signal = numpy.array(inputs.numbers("signal", 1 << 16, 1000), dtype=numpy.float64)
    return lambda: numpy.fft.fft(signal)


def _array_sort() -> Pass:
    numpy = import_module("numpy")
    values = numpy.array(inputs.numbers("unsorted", 200_000, 1 << 31), dtype=numpy.int64)
    return lambda: numpy.sort(values, kind="stable")


def _pillow() -> Pass:
    image = import_module("PIL.Image")
    picture = image.frombytes("RGB", (64, 64), inputs.noise("picture", 3 * 64 * 64)).resize((512, 512))
    files = import_module("io")

    def one_pass() -> None:
        smaller = picture.resize((300, 200), image.Resampling.LANCZOS)
        smaller.rotate(7).save(files.BytesIO(), "JPEG", quality=80)

    return one_pass


def _lxml() -> Pass:
    etree, data = import_module("lxml.etree"), inputs.xml(2000)
    return lambda: etree.fromstring(data).xpath("//item[price > 500]/tag[1]/text()")


def _jinja2() -> Pass:
    source = (
        "{% for each in items %}<tr class={{ loop.cycle('a', 'b') }}><td>{{ each.name|upper }}</td>"
        "<td>{{ '%.2f'|format(each.price) }}</td>{% for tag in each.tags %}<i>{{ tag|e }}</i>{% endfor %}"
        "</tr>{% endfor %}"
    )
    template, items = import_module("jinja2").Template(source), inputs.records(500)
    return lambda: template.render(items=items)


def _markdown() -> Pass:
    renderer, text = import_module("markdown_it").MarkdownIt(), inputs.markdown(60)
    return lambda: renderer.render(text)


def _pygments() -> Pass:
    pygments = import_module("pygments")
    lexer = import_module("pygments.lexers").PythonLexer()
    formatter = import_module("pygments.formatters").HtmlFormatter()
    source = inputs.python_source(20)
    return lambda: pygments.highlight(source, lexer, formatter)


def _rapidfuzz() -> Pass:
    process, choices = import_module("rapidfuzz.process"), inputs.words("choices", 5000)
    wanted = inputs.words("wanted", 5)
    return lambda: [process.extract(each, choices, limit=5) for each in wanted]


def _duckdb() -> Pass:
    connection = import_module("duckdb").connect(config={"threads": 1})
    connection.execute(
        "create table sales as select i % 97 as shop, i % 1009 as item, (i * 7919) % 10007 as price "
        "from range(200000) numbers(i)"
    )
    query = (
        "select shop, count(distinct item), avg(price), max(price) from sales "
        "where price % 3 > 0 group by shop order by 3 desc"
    )
    return lambda: connection.execute(query).fetchall()


def _tree_sitter() -> Pass:
    sitter, language = import_module("tree_sitter"), import_module("tree_sitter_python").language()
    parser, source = sitter.Parser(sitter.Language(language)), inputs.python_source(100).encode()
    return lambda: parser.parse(source)


_LUA = """
return function()
  local found, sieve = 0, {}
  for n = 2, 20000 do
    if not sieve[n] then
      found = found + 1
      for multiple = n * n, 20000, n do sieve[multiple] = true end
    end
  end
  local parts = {}
  for n = 1, 2000 do parts[#parts + 1] = string.format("%d:%d", n, found % n) end
  return #table.concat(parts, ",")
end
"""


def _lua(module: str) -> Pass:
    one_pass: Pass = import_module(module).LuaRuntime().execute(_LUA)
    return one_pass


def _pycparser() -> Pass:
    parser, source = import_module("pycparser.c_parser").CParser(), inputs.c_source(10)
    return lambda: parser.parse(source)


def _sqlite() -> Pass:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.execute("create table sales (shop integer, item integer, price integer, name text)")
    names, prices = inputs.words("sold", 20_000), inputs.numbers("prices", 20_000, 10_007)
    rows = ((at % 97, at % 1009, prices[at], names[at]) for at in range(20_000))
    connection.executemany("insert into sales values (?, ?, ?, ?)", rows)
    connection.execute("create index by_item on sales (item)")
    query = (
        "select a.shop, count(*), sum(b.price) from sales a join sales b on a.item = b.item "
        "where a.price < 500 and b.name like '%a%' group by a.shop order by 3"
    )
    return lambda: connection.execute(query).fetchall()


def _n_body() -> Pass:
    def one_pass() -> float:
        bodies = [[float(at), at * 0.5, at * 0.25, 0.0, 0.1 * at, 0.0, 1.0 + at] for at in range(5)]
        for _ in range(300):
            for at, one in enumerate(bodies):
                for other in bodies[at + 1 :]:
                    dx, dy, dz = one[0] - other[0], one[1] - other[1], one[2] - other[2]
                    force = 0.001 / (dx * dx + dy * dy + dz * dz + 0.01) ** 1.5
                    for axis, distance in enumerate((dx, dy, dz)):
                        one[3 + axis] -= distance * other[6] * force
                        other[3 + axis] += distance * one[6] * force
            for body in bodies:
                for axis in range(3):
                    body[axis] += 0.001 * body[3 + axis]
        return bodies[0][0]

    return one_pass


class _Job:
    """A job of :func:`_objects`."""

    def __init__(self, number: int, following: _Job | None) -> None:
        self.number, self.following, self.left = number, following, number % 7 + 1

    def step(self, done: dict[int, int]) -> bool:
        self.left -= 1
        done[self.number] = done.get(self.number, 0) + self.left
        return self.left > 0


def _objects() -> Pass:
    def one_pass() -> int:
        done: dict[int, int] = {}
        chain: _Job | None = None
        for number in range(2000):
            chain = _Job(number, chain)
        waiting: list[_Job] = []
        while chain is not None:
            waiting.append(chain)
            chain = chain.following
        while waiting:
            waiting = [job for job in waiting if job.step(done)]
        return sum(done.values())

    return one_pass


def _compile() -> Pass:
    source = inputs.python_source(40)
    return lambda: compile(source, "made", "exec")


def _sorted() -> Pass:
    every = inputs.words("sorted", 20_000)
    return lambda: sorted(every, key=lambda word: (len(word), word[::-1]))


def _decimal() -> Pass:
    def one_pass() -> Decimal:
        with localcontext() as context:
            context.prec = 400
            guess, two = Decimal(1), Decimal(2)
            for _ in range(200):
                guess = (guess + two / guess) / two
            return guess

    return one_pass


@cache
def _folder() -> Path:
    """Return the folder with the files that commands read; it goes when the process ends."""
    return Path(_temporary().name)


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="accuracy-")


def _file(name: str, content: str) -> str:
    path = _folder() / name
    path.write_text(content)
    return str(path)


def _command_version(command: str, *asking: str) -> str:
    path = shutil.which(command)
    if path is None:
        raise MissingProgramError(f"the command {command} is not installed")
    done = subprocess.run([path, *asking], capture_output=True, text=True, check=False, env=_ENVIRONMENT)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if any(map(str.isdigit, line))]
    if not lines:
        raise MissingProgramError(f"{command} {' '.join(asking)} states no version")
    return lines[0].strip()


_ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}


def _run(*command: str) -> Pass:
    def one_pass() -> None:
        subprocess.run(
            command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=_ENVIRONMENT
        )

    return one_pass


def _of_command(kind: str, command: str, asking: str, prepare: Callable[[], Pass]) -> Program:
    return Program(kind, partial(_command_version, command, asking), prepare)


def _text_file(count: int) -> str:
    return _file(f"text-{count}", inputs.text(count))


_BC = "scale = 250\n4 * a(1)\ne(1)\n"
_PERL = 'my %n; while (<>) { $n{$_}++ for /(\\w+)/g } print join ",", map { "$_=$n{$_}" } sort keys %n'
_AWK = "{ for (at = 1; at <= NF; at++) n[$at] += length($at) } END { for (word in n) print word, n[word] }"
_NODE = """
const counts = new Map();
const words = require("fs").readFileSync(process.argv[1], "utf8").split(/\\s+/);
for (let round = 0; round < 20; round++)
  for (const word of words) counts.set(word, (counts.get(word) || 0) + word.length);
console.log(JSON.stringify([...counts].sort()).length);
"""


PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        "zstd": _of_package("compression", "zstandard", _zstd),
        "brotli": _of_package("compression", "brotli", _brotli),
        "lz4": _of_package("compression", "lz4", _lz4),
        "xz": _of_command(
            "compression", "xz", "--version", lambda: _run("xz", "-3", "-T1", "-k", "-c", _text_file(20_000))
        ),
        "bzip2": _of_command(
            "compression", "bzip2", "--help", lambda: _run("bzip2", "-k", "-c", _text_file(60_000))
        ),
        "orjson": _of_package("JSON", "orjson", _orjson),
        "lxml": _of_package("XML", "lxml", _lxml),
        "aes-gcm": _of_package("crypto", "cryptography", _aes_gcm),
        "ed25519": _of_package("crypto", "cryptography", _ed25519),
        "sha256": _of_package("crypto", "cryptography", _sha256),
        "openssl": _of_command(
            "crypto",
            "openssl",
            "version",
            lambda: _run("openssl", "dgst", "-blake2b512", _text_file(1_000_000)),
        ),
        "regex": _of_package("regex", "regex", _regex),
        "perl": _of_command("regex", "perl", "-v", lambda: _run("perl", "-e", _PERL, _text_file(100_000))),
        "rapidfuzz": _of_package("strings", "rapidfuzz", _rapidfuzz),
        "matmul": _of_package("matrix", "numpy", _matmul),
        "fft": _of_package("matrix", "numpy", _fft),
        "numpy-sort": _of_package("sorting", "numpy", _array_sort),
        "sort": _of_command(
            "sorting", "sort", "--version", lambda: _run("sort", "--parallel=1", "-k2", _text_file(200_000))
        ),
        "sorted": Program("sorting", _python, _sorted),
        "pillow": _of_package("image", "pillow", _pillow),
        "sqlite": Program("database", lambda: f"SQLite {sqlite3.sqlite_version}", _sqlite),
        "duckdb": _of_package("database", "duckdb", _duckdb),
        "jinja2": _of_package("interpreter", "jinja2", _jinja2),
        "markdown-it": _of_package("interpreter", "markdown-it-py", _markdown),
        "pygments": _of_package("interpreter", "pygments", _pygments),
        "n-body": Program("interpreter", _python, _n_body),
        "objects": Program("interpreter", _python, _objects),
        "lua": _of_package("interpreter", "lupa", partial(_lua, "lupa.lua54")),
        "luajit": _of_package("interpreter", "lupa", partial(_lua, "lupa.luajit21")),
        "awk": _of_command(
            "interpreter", "mawk", "-Wversion", lambda: _run("mawk", _AWK, _text_file(100_000))
        ),
        "node": _of_command(
            "interpreter", "node", "--version", lambda: _run("node", "-e", _NODE, _text_file(20_000))
        ),
        "decimal": Program("arithmetic", _python, _decimal),
        "bc": _of_command("arithmetic", "bc", "--version", lambda: _run("bc", "-l", _file("pi", _BC))),
        "compile": Program("compiler", _python, _compile),
        "pycparser": _of_package("compiler", "pycparser", _pycparser),
        "tree-sitter": _of_package("compiler", "tree-sitter-python", _tree_sitter),
        "gcc": _of_command(
            "compiler",
            "gcc",
            "--version",
            lambda: _run("gcc", "-O2", "-c", _file("made.c", inputs.c_source(8)), "-o", "/dev/null"),
        ),
    }
)
"""By name. The version of a package has that of the interpreter with it."""
