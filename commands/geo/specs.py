"""The geo commands: one record each."""

from __future__ import annotations

from ..spec.command import Family
from ..spec.grammar import KEY, block, double, integer, key, many, oneof, optional, string, switch, token
from ..spec.key_finders import keys_of_georadius
from ..spec.key_specs import READS, UPDATES, KeySpec, at

family = Family(__package__, "geo", categories="geo")

_LONGITUDE, _LATITUDE = double("longitude"), double("latitude")
_UNIT = oneof("unit", token("M"), token("KM"), token("FT"), token("MI"))
_MEMBERS = optional(many(string("member")))
_ORDER = optional(oneof("order", token("ASC"), token("DESC")))
_COUNT = optional(block("count-block", integer("count", "COUNT"), switch("ANY")))
_COUNT_ANY_LATER = optional(block("count-block", integer("count", "COUNT"), switch("ANY", since="6.2.0")))
_WITH = (switch("WITHCOORD"), switch("WITHDIST"), switch("WITHHASH"))
_FROM_AND_BY = (
    oneof(
        "from", string("member", "FROMMEMBER"), block("fromlonlat", _LONGITUDE, _LATITUDE, after="FROMLONLAT")
    ),
    oneof(
        "by",
        block("circle", double("radius", "BYRADIUS"), _UNIT),
        block("box", double("width", "BYBOX"), double("height"), _UNIT),
    ),
    _ORDER,
    _COUNT,
)
_STORE = optional(
    oneof(
        "store",
        key("storekey", "STORE", spec=1, display="key"),
        key("storedistkey", "STOREDIST", spec=2, display="key"),
    )
)
_GEORADIUS_RO_ARGUMENTS = (
    *(KEY, _LONGITUDE, _LATITUDE, double("radius"), _UNIT),
    *(*_WITH, _COUNT_ANY_LATER, _ORDER),
)
_GEORADIUSBYMEMBER_RO_ARGUMENTS = (KEY, string("member"), double("radius"), _UNIT, *_WITH, _COUNT, _ORDER)
_RADIUS_COST = "O(log(M)+N); M: members of the index, N: members in the square around the circle"


def _stores(start: int) -> tuple[KeySpec, KeySpec]:
    """Return the key specs of STORE and STOREDIST; the last of them counts."""
    first, second = (
        KeySpec(
            ("OW", "update", "incomplete"),
            ("keyword", name, start),
            ("range", 0, 1, 0),
            notes=f"If {name} is given more than once, the last one counts",
        )
        for name in ("STORE", "STOREDIST")
    )
    return first, second


# A table: the formatter would give each word of a record a line of its own.
# fmt: off

GEOADD = family.write("GEOADD", arity=-5, flags="denyoom", keys=UPDATES, since="3.2.0",
    summary="Adds members with their places to a sorted set, or gives members other places.",
    complexity="O(M*log(N)); M: members given, N: members of the sorted set",
    arguments=(KEY, optional(oneof("condition", token("NX"), token("XX"), since="6.2.0")),
        switch("CH", name="change", since="6.2.0"),
        many(block("data", _LONGITUDE, _LATITUDE, string("member")))),
    history={"6.2.0": "Added CH, NX and XX."})

GEODIST = family.read("GEODIST", arity=-4, keys=READS, since="3.2.0",
    summary="Returns the distance between two members.",
    arguments=(KEY, string("member1"), string("member2"), optional(_UNIT)))

GEOHASH = family.read("GEOHASH", arity=-2, keys=READS, since="3.2.0",
    summary="Returns the places of members as the usual geohash texts.",
    complexity="O(N); N: members given",
    arguments=(KEY, _MEMBERS))

GEOPOS = family.read("GEOPOS", arity=-2, keys=READS, since="3.2.0",
    summary="Returns the longitudes and latitudes of members.",
    complexity="O(N); N: members given",
    arguments=(KEY, _MEMBERS))

GEOSEARCH = family.read("GEOSEARCH", arity=-7, keys=READS, since="6.2.0",
    summary="Returns the members within a circle or a box.",
    complexity="O(log(M)+N); M: members of the index, N: members in the cells that the area touches",
    arguments=(KEY, *_FROM_AND_BY, *_WITH),
    history={"7.0.0": "Units may be in capitals."})

GEOSEARCHSTORE = family.write("GEOSEARCHSTORE", arity=-8, flags="denyoom",
    keys=(at(1, "OW update"), at(2, "RO access")), since="6.2.0",
    summary="Stores the members within a circle or a box as another sorted set.",
    complexity="O(log(M)+N); M: members of the index, N: members in the cells that the area touches",
    arguments=(key("destination"), key("source", spec=1), *_FROM_AND_BY, switch("STOREDIST")),
    history={"7.0.0": "Units may be in capitals."})

GEORADIUS = family.write("GEORADIUS", arity=-6, flags="denyoom movablekeys",
    keys=(at(1, "RO access"), *_stores(6)),
    key_finder=keys_of_georadius, since="3.2.0",
    doc_flags="deprecated", deprecated_since="6.2.0",
    replaced_by="`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument",
    summary="Returns or stores the members within a distance from a place.",
    complexity=_RADIUS_COST,
    arguments=(*_GEORADIUS_RO_ARGUMENTS, _STORE),
    history={"6.2.0": "Added ANY for COUNT.", "7.0.0": "Units may be in capitals."})

GEORADIUS_RO = family.read("GEORADIUS_RO", arity=-6, keys=READS, since="3.2.10", doc_flags="deprecated",
    deprecated_since="6.2.0", replaced_by="`GEOSEARCH` with the `BYRADIUS` argument",
    summary="Returns the members within a distance from a place.",
    complexity=_RADIUS_COST,
    arguments=_GEORADIUS_RO_ARGUMENTS,
    history={"6.2.0": "Added ANY for COUNT.", "7.0.0": "Units may be in capitals."})

GEORADIUSBYMEMBER = family.write("GEORADIUSBYMEMBER", arity=-5, flags="denyoom movablekeys",
    keys=(at(1, "RO access"), *_stores(5)),
    key_finder=keys_of_georadius, since="3.2.0",
    doc_flags="deprecated", deprecated_since="6.2.0",
    replaced_by="`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
    summary="Returns or stores the members within a distance from one of them.",
    complexity=_RADIUS_COST,
    arguments=(*_GEORADIUSBYMEMBER_RO_ARGUMENTS, _STORE),
    history={"6.2.0": "Added ANY for COUNT.", "7.0.0": "Units may be in capitals."})

GEORADIUSBYMEMBER_RO = family.read("GEORADIUSBYMEMBER_RO", arity=-5, keys=READS, since="3.2.10",
    doc_flags="deprecated", deprecated_since="6.2.0",
    replaced_by="`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments",
    summary="Returns the members within a distance from one of them.",
    complexity=_RADIUS_COST,
    arguments=_GEORADIUSBYMEMBER_RO_ARGUMENTS,
    history={"6.2.0": "Added ANY for COUNT.", "7.0.0": "Units may be in capitals."})

# fmt: on
